import { type BackendLoad, StetError } from '@stet/backend';

/** Most rows of one batch: kernels count workgroups by rows, and a dimension has at most 65535. */
export const MAX_ROWS = 4096;

/** Widest head that the attention kernels take. */
export const MAX_HEAD_SIZE = 256;

/** Throws `STET_ERR_UNSUPPORTED` for sizes that the kernels do not take; what memory allows is seen when it is allocated. */
export function checkLimits({ plan, maxRows }: Pick<BackendLoad, 'plan' | 'maxRows'>): void {
  if (maxRows > MAX_ROWS) {
    throw new StetError('STET_ERR_UNSUPPORTED', `maxRows is ${maxRows}, the WebGPU backend takes at most ${MAX_ROWS}`);
  }
  if (plan.headSize > MAX_HEAD_SIZE) {
    const message = `heads have ${plan.headSize} elements, the WebGPU backend takes at most ${MAX_HEAD_SIZE}`;
    throw new StetError('STET_ERR_UNSUPPORTED', message);
  }
}
