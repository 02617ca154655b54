import { checkPlan } from './check-plan.js';
import { StetError } from './errors.js';
import type { WeightSpec } from './plan.js';
import type { BackendLoad } from './port.js';
import type { WeightData } from './weights.js';

/** Elements of a `q8` or `q4` block along a row. */
const BLOCK = 32;

/** Throws `STET_ERR_BAD_PLAN` or, for sizes that no backend takes, `STET_ERR_UNSUPPORTED`; every backend calls it before it allocates. */
export function checkLoad(load: BackendLoad): void {
  checkPlan(load.plan);
  const { blockSize, blockCount, maxRows } = load;
  if (!Number.isInteger(blockSize) || blockSize < 16 || blockSize % 16 !== 0) {
    unsupported(`blockSize is ${blockSize}, expected a positive multiple of 16`);
  }
  if (!Number.isInteger(blockCount) || blockCount < 2) {
    unsupported(`blockCount is ${blockCount}, expected at least 2: block 0 is never issued`);
  }
  if (!Number.isInteger(maxRows) || maxRows < 1) unsupported(`maxRows is ${maxRows}, expected a positive integer`);
}

/** Throws `STET_ERR_ABORTED` if the caller of a load gave it up; a backend calls it between weights. */
export function checkLoadSignal(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new StetError('STET_ERR_ABORTED', 'loading was aborted', { cause: signal.reason });
}

/** Throws `STET_ERR_BAD_WEIGHTS` unless what a `WeightSource` gave has the kind and the sizes of its spec. */
export function checkWeightData(spec: WeightSpec, data: WeightData): void {
  const kind = spec.kind === 'vector' ? 'vector' : spec.format;
  if (data.kind !== kind) badWeight(spec.name, `came as ${data.kind}, expected ${kind}`);
  switch (data.kind) {
    case 'vector':
      size(spec.name, 'values', data.values.length, spec.kind === 'vector' ? spec.size : 0);
      return;
    case 'bf16':
      size(spec.name, 'bits', data.bits.length, spec.kind === 'matrix' ? spec.rows * spec.columns : 0);
      return;
    case 'q8': {
      const blocks = blockTotal(spec);
      size(spec.name, 'quants', data.quants.length, blocks * BLOCK);
      size(spec.name, 'scales', data.scales.length, blocks);
      return;
    }
    case 'q4': {
      const blocks = blockTotal(spec);
      size(spec.name, 'bytes of nibbles', data.nibbles.length, blocks * (BLOCK / 2));
      size(spec.name, 'scales', data.scales.length, blocks);
      size(spec.name, 'centres', data.centres.length, blocks);
      return;
    }
    default:
      badWeight(spec.name, `came as the unknown kind ${JSON.stringify((data as { kind: unknown }).kind)}`);
  }
}

function blockTotal(spec: WeightSpec): number {
  return spec.kind === 'matrix' ? spec.rows * Math.ceil(spec.columns / BLOCK) : 0;
}

function size(name: string, what: string, got: number, want: number): void {
  if (got !== want) badWeight(name, `has ${got} ${what}, expected ${want}`);
}

function unsupported(message: string): never {
  throw new StetError('STET_ERR_UNSUPPORTED', message);
}

function badWeight(name: string, what: string): never {
  throw new StetError('STET_ERR_BAD_WEIGHTS', `${name} ${what}`);
}
