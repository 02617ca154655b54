import type { ConformanceCase } from '../case.js';
import { blockCases } from './blocks.js';
import { companyCases } from './company.js';
import { goldenCases } from './golden.js';
import { isolationCases } from './isolation.js';
import { lifecycleCases } from './lifecycle.js';
import { limitCases } from './limits.js';
import { loadCases } from './load.js';
import { outputCases } from './outputs.js';
import { overwriteCases } from './overwrite.js';
import { refusalCases } from './refusal.js';
import { repeatCases } from './repeat.js';
import { scheduleCases } from './schedules.js';
import { windowCases } from './windows.js';

/** Everything a backend promises, in the order in which failures are easiest to read. */
export const conformanceCases: readonly ConformanceCase[] = [
  ...loadCases,
  ...goldenCases,
  ...repeatCases,
  ...outputCases,
  ...isolationCases,
  ...blockCases,
  ...windowCases,
  ...overwriteCases,
  ...scheduleCases,
  ...companyCases,
  ...limitCases,
  ...refusalCases,
  ...lifecycleCases,
];
