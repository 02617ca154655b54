import type { WeightFormat } from '@stet/backend';
import { type AnswerCase, answerCases } from './answer-cases.js';

/** The recorded answers to the cases of a format. */
export function expectedOf(
  recorded: Readonly<Record<string, unknown>>,
  format: WeightFormat,
  cases: readonly AnswerCase[] = answerCases,
): Record<string, unknown> {
  return Object.fromEntries(cases.filter((one) => one.format === format).map(({ name }) => [name, recorded[name]]));
}
