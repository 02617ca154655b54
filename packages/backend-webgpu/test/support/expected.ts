import type { WeightFormat } from '@stet/backend';
import { answerCases } from './answer-cases.js';

/** The recorded answers to the cases of a format. */
export function expectedOf(recorded: Readonly<Record<string, unknown>>, format: WeightFormat): Record<string, unknown> {
  return Object.fromEntries(
    answerCases.filter((one) => one.format === format).map(({ name }) => [name, recorded[name]]),
  );
}
