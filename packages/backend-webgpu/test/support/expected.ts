import type { WeightFormat } from '@stet/backend';
import { type AnswerCase, answerCases } from './answer-cases.js';
import type { Answer } from './answers.js';

/** The recorded answers to the cases of a format. */
export function expectedOf(
  recorded: Readonly<Record<string, Answer>>,
  format: WeightFormat,
  cases: readonly AnswerCase[] = answerCases,
): Record<string, Answer> {
  return Object.fromEntries(cases.filter((one) => one.format === format).map(({ name }) => [name, recorded[name]!]));
}
