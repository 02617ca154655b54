import { type Backend, StetError } from '@stet/backend';
import { auto, direct, dvr, type VerifyPolicy } from '@stet/scheduler';
import { type CalibrationOptions, calibrate } from './calibrate.js';

/** A policy, or the name of one with its defaults. */
export type PolicyOption = VerifyPolicy | 'auto' | 'dvr' | 'direct';

/** Milliseconds that timing both schedules may take before the first request. */
const CALIBRATION_BUDGET_MS = 50;
/** A sequence has no more rows than that in most steps. */
const WINDOW_ROWS = 32;

/** The policy of an engine of so many sequences at once, on a backend that nobody uses yet. Rejects with what the backend or the signal says. */
export async function choosePolicy(
  option: PolicyOption | undefined,
  backend: Backend,
  maxRunning: number,
  calibration: Omit<CalibrationOptions, 'budgetMs' | 'maxRows'>,
): Promise<VerifyPolicy> {
  if (typeof option === 'object') return option;
  switch (option) {
    case undefined:
    case 'auto': {
      const { canonical, fast } = backend.info;
      // Nothing to verify, or nobody to verify it for.
      if (fast === 'canonical' || canonical === 'none') return direct();
      const points = await calibrate(backend, {
        ...calibration,
        budgetMs: CALIBRATION_BUDGET_MS,
        maxRows: WINDOW_ROWS * maxRunning,
      });
      return auto({ calibration: points });
    }
    case 'dvr':
      return dvr();
    case 'direct':
      return direct();
    default:
      return refuse(option);
  }
}

function refuse(option: never): never {
  throw new StetError(
    'STET_ERR_BAD_REQUEST',
    `unknown policy ${JSON.stringify(option)}: there are auto, dvr and direct`,
  );
}
