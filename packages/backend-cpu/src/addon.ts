import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { StetError } from '@stet/backend';

/** A runtime of the addon; only its functions look inside. */
export type NativeHandle = { readonly __handle: unique symbol };

export interface NativeIsa {
  readonly name: IsaName;
  readonly available: boolean;
  /** Why not, empty if it is. */
  readonly reason: string;
  /** Features used beyond the instruction set's base, empty if none. */
  readonly features: string;
}

export type IsaName = 'scalar' | 'avx2' | 'avx512';

/** What native/*_binding.cpp exports. Errors have a `code` of the port. Requests return promises; one may run at a time. */
export interface Addon {
  features(): { readonly isas: readonly NativeIsa[]; readonly compiler: string };
  liveBytes(): number;

  create(kernels: number, threads: number, program: Int32Array, constants: Float32Array): NativeHandle;
  setVector(handle: NativeHandle, weight: number, values: Float32Array): void;
  extendRope(handle: NativeHandle, rope: number, cosine: Float32Array, sine: Float32Array): void;
  packBf16(handle: NativeHandle, weight: number, bits: Uint16Array): Promise<void>;
  packQ8(handle: NativeHandle, weight: number, quants: Int8Array, scales: Float32Array): Promise<void>;
  packQ4(
    handle: NativeHandle,
    weight: number,
    nibbles: Uint8Array,
    scales: Uint16Array,
    centres: Uint16Array,
  ): Promise<void>;
  /** (offset, size) of each weight in the image of them all, then the size of the image, in bytes. */
  imagePlaces(handle: NativeHandle): Float64Array;
  /** Checksums of the image, 8 bytes for each MiB of it, which is read before from the open file where there is one. */
  sumImage(handle: NativeHandle, sums: Uint8Array, file: number | undefined, offset: number): Promise<void>;
  /** Sets all weights to what lies in the image. */
  adoptImage(handle: NativeHandle): void;
  /** Unsets all weights. */
  dropImage(handle: NativeHandle): void;
  copyImage(handle: NativeHandle, offset: number, target: Uint8Array): void;
  memory(handle: NativeHandle): { weightBytes: number; kvBytes: number; scratchBytes: number };
  bind(
    handle: NativeHandle,
    schedule: number,
    columns: Int32Array,
    argmax: Int32Array,
    argmaxLogit: Float32Array,
    runnerUpLogit: Float32Array,
    logits: Float32Array,
  ): void;
  forward(handle: NativeHandle, hasFast: boolean, hasCanonical: boolean): Promise<void>;
  /** Draws `here`, before it returns, or on the backend's threads: then it returns a promise. */
  sample(
    handle: NativeHandle,
    isa: number,
    here: boolean,
    logits: readonly Float32Array[],
    draws: Float64Array,
    adjustedIds: Int32Array,
    adjustedValues: Float64Array,
    tokens: Int32Array,
    normalizers: Float64Array,
    topIds: Int32Array,
  ): Promise<void> | undefined;
  close(handle: NativeHandle): Promise<void>;

  // On the kernels of a number, as `create` takes it.
  /** The packed form of a matrix. */
  opPack(kernels: number, ...matrix: NativeMatrix): Uint8Array;
  opEmbed(kernels: number, schedule: number, ...matrixTokensOutput: [...NativeMatrix, Int32Array, Float32Array]): void;
  opLinear(
    kernels: number,
    schedule: number,
    ...matrixBiasInputOutput: [...NativeMatrix, Float32Array | undefined, Float32Array, Float32Array]
  ): void;
  opNorm(
    kernels: number,
    schedule: number,
    groupCount: number,
    constants: Float32Array,
    weight: Float32Array,
    input: Float32Array,
    output: Float32Array,
  ): void;
  opRope(
    kernels: number,
    schedule: number,
    headCount: number,
    headSize: number,
    positions: Int32Array,
    cosine: Float32Array,
    sine: Float32Array,
    rows: Float32Array,
  ): void;
  opAttention(
    kernels: number,
    schedule: number,
    sizes: Int32Array,
    scale: Float32Array,
    key: Float32Array,
    value: Float32Array,
    query: Float32Array,
    positions: Int32Array,
    output: Float32Array,
  ): void;
  opSwiglu(kernels: number, schedule: number, gate: Float32Array, up: Float32Array, output: Float32Array): void;
  opAdd(kernels: number, schedule: number, left: Float32Array, right: Float32Array, output: Float32Array): void;
}

/** format, rows, columns, bits or quants or nibbles, scales, centres */
export type NativeMatrix = [
  format: number,
  rows: number,
  columns: number,
  data: Uint16Array | Int8Array | Uint8Array,
  scales: Float32Array | Uint16Array | undefined,
  centres: Uint16Array | undefined,
];

export type AddonLookup =
  | { readonly kind: 'available'; readonly addon: Addon }
  | { readonly kind: 'unavailable'; readonly reason: string; readonly cause?: unknown };

/** Loads the addon, the first time from its file; says in one sentence why it cannot and what would help. */
export function lookUpAddon(): AddonLookup {
  const file = fileURLToPath(new URL('../build/stet_cpu.node', import.meta.url));
  if (!existsSync(file)) return { kind: 'unavailable', reason: whyNotBuilt() };
  try {
    // The cache of `require` makes every later call return the same object.
    return { kind: 'available', addon: createRequire(import.meta.url)(file) as Addon };
  } catch (cause) {
    const message = cause instanceof Error ? cause.message.split('\n')[0] : String(cause);
    return {
      kind: 'unavailable',
      reason: `the addon does not load (${message}). Build it on this machine: \`npm run build\`.`,
      cause,
    };
  }
}

/** Throws `STET_ERR_BACKEND_UNAVAILABLE` where the addon cannot be loaded. */
export function requireAddon(): Addon {
  const lookup = lookUpAddon();
  if (lookup.kind === 'available') return lookup.addon;
  throw new StetError('STET_ERR_BACKEND_UNAVAILABLE', `the CPU backend is not available: ${lookup.reason}`, {
    cause: lookup.cause,
  });
}

function whyNotBuilt(): string {
  const file = fileURLToPath(new URL('../build/unavailable.json', import.meta.url));
  if (!existsSync(file)) return 'its native kernels have not been built. Run `npm run build`.';
  const { reason, fix } = JSON.parse(readFileSync(file, 'utf8')) as { reason: string; fix: string };
  return `${reason} ${fix}`;
}

/** Rethrows what the addon threw as a `StetError`, with the code that it came with. */
export function rethrowNative(error: unknown): never {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'STET_ERR_OUT_OF_MEMORY':
    case 'STET_ERR_BACKEND_FAILED':
    case 'STET_ERR_BACKEND_CLOSED':
    case 'STET_ERR_BACKEND_BUSY':
    case 'STET_ERR_UNSUPPORTED':
    case 'STET_ERR_BAD_WEIGHTS':
      throw new StetError(code, (error as Error).message, { cause: error });
    default:
      throw error;
  }
}
