import { matrix } from '../matrix/matrix.js';
import type { Scenario } from '../study/scenario.js';
import { forward } from './forward.js';
import { injection } from './injection.js';
import { offline } from './offline.js';
import { oneOfEleven } from './one-of-eleven.js';
import { online } from './online.js';
import { spans } from './spans.js';
import { windows } from './windows.js';

/** In the order of the report. */
export const scenarios: readonly Scenario[] = [
  offline,
  oneOfEleven,
  online,
  spans,
  windows,
  forward,
  injection,
  matrix,
];
