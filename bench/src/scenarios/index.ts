import type { Scenario } from '../study/scenario.js';
import { forward } from './forward.js';
import { spans } from './spans.js';

/** In the order of the report. */
export const scenarios: readonly Scenario[] = [spans, forward];
