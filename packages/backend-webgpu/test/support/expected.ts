import type { WeightFormat } from '@stet/backend';
import { answerCases } from './answer-cases.js';
import type { Answer } from './answers.js';

/** The recorded answers to the cases of a format. */
export function expectedOf(recorded: Readonly<Record<string, Answer>>, format: WeightFormat): Record<string, Answer> {
  return Object.fromEntries(
    answerCases.filter((one) => one.format === format).map(({ name }) => [name, recorded[name]!]),
  );
}
