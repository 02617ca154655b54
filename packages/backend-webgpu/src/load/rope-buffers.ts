import { checkLoadSignal, type Plan, type RopeSpec } from '@stet/backend';
import { ropeTables } from '@stet/backend/numerics';
import { checked } from '../device/error-scopes.js';
import { GPU_USAGE, type GpuMemory } from '../device/memory.js';
import type { WebGpu } from '../device/web-gpu.js';

/** Angles whose sines are made at a time, in a few milliseconds. */
const SLICE_ANGLES = 16384;

/** The tables of all ropes of a plan for its whole context (`DeviceModel.ropes`), made in slices, so that the event loop turns. */
export async function uploadRopes(
  gpu: WebGpu,
  memory: GpuMemory,
  { ropes, contextLength }: Plan,
  signal: AbortSignal | undefined,
): Promise<GPUBuffer[]> {
  const buffers = await checked(gpu, 'rope tables', () =>
    ropes.map(({ inverseFrequencies }) => {
      const byteCount = contextLength * inverseFrequencies.length * 8;
      return memory.allocate('rope table', byteCount, GPU_USAGE.STORAGE | GPU_USAGE.COPY_DST);
    }),
  );
  for (const [index, rope] of ropes.entries()) {
    const sliceLength = Math.max(1, Math.floor(SLICE_ANGLES / rope.inverseFrequencies.length));
    for (let position = 0; position < contextLength; position += sliceLength) {
      const count = Math.min(sliceLength, contextLength - position);
      const turns = turnsOf(rope, count, position);
      gpu.device.queue.writeBuffer(buffers[index]!, position * rope.inverseFrequencies.length * 8, turns);
      await new Promise<void>((resolve) => setTimeout(resolve, 0));
      checkLoadSignal(signal);
    }
  }
  return buffers;
}

/** (cosine, sine) pairs (count × headSize/2) from a position on. */
function turnsOf(rope: RopeSpec, count: number, firstPosition: number): Float32Array<ArrayBuffer> {
  const { cosine, sine } = ropeTables(rope, count, firstPosition);
  const turns = new Float32Array(2 * cosine.length);
  for (let i = 0; i < cosine.length; i++) {
    turns[2 * i] = cosine[i]!;
    turns[2 * i + 1] = sine[i]!;
  }
  return turns;
}
