/** What a backend did wrong, with the place and both values. */
export class ConformanceFailure extends Error {
  override readonly name = 'ConformanceFailure';
}

export function fail(message: string): never {
  throw new ConformanceFailure(message);
}

/** Throws at the first index where the bits of two f32 arrays differ; NaN equals NaN of the same bits, and 0 is not -0. */
export function expectEqualBits(got: Float32Array, want: Float32Array, where: string): void {
  if (got.length !== want.length) fail(`${where}: ${got.length} values, expected ${want.length}`);
  const gotBits = new Uint32Array(got.buffer, got.byteOffset, got.length);
  const wantBits = new Uint32Array(want.buffer, want.byteOffset, want.length);
  for (let i = 0; i < gotBits.length; i++) {
    if (gotBits[i] !== wantBits[i]) {
      const differing = gotBits.filter((bits, k) => bits !== wantBits[k]).length;
      fail(
        `${where}: index ${i} is ${got[i]} (${hex(gotBits[i]!)}), expected ${want[i]} (${hex(wantBits[i]!)}); ` +
          `${differing} of ${got.length} values differ`,
      );
    }
  }
}

export function expectEqual(got: unknown, want: unknown, where: string): void {
  if (!Object.is(got, want)) fail(`${where}: ${String(got)}, expected ${String(want)}`);
}

function hex(bits: number): string {
  return `0x${bits.toString(16).padStart(8, '0')}`;
}
