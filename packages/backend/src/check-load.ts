import { checkPlan } from './check-plan.js';
import { StetError } from './errors.js';
import type { BackendLoad } from './port.js';

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

function unsupported(message: string): never {
  throw new StetError('STET_ERR_UNSUPPORTED', message);
}
