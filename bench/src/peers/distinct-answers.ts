import { type Participant, unlessItFails } from './contender.js';
import type { Crowd } from './crowds.js';

export interface Difference {
  /** How many different answers there are. */
  readonly distinct: number;
  /** The first output token that not all answers share; absent where they are equal. */
  readonly firstDifference?: number;
}

/** Compares answers token by token; one that another begins with is another answer. */
export function distinctAnswers(answers: readonly (readonly number[])[]): Difference {
  const distinct = new Set(answers.map((answer) => answer.join())).size;
  if (distinct <= 1) return { distinct };
  const length = Math.max(...answers.map((answer) => answer.length));
  const differs = (index: number): boolean => answers.some((answer) => answer[index] !== answers[0]![index]);
  const firstDifference = Array.from({ length }, (_, index) => index).find(differs)!;
  return { distinct, firstDifference };
}

/** Somebody whose answers are compared with each other. One crowd at a time. */
export interface Answerer extends Participant {
  /** Whether equal requests are promised equal answers. */
  readonly promise: 'equal' | 'none';
  /** Output tokens of each target of the crowd. */
  answer(crowd: Crowd): Promise<readonly (readonly number[])[]>;
  /** Rollbacks until now, where there are any. */
  rollbacks?(): number;
}

export interface DistinctAnswers extends Difference {
  readonly contender: string;
  /** Equal requests, each answered. */
  readonly requests: number;
  readonly rollbacks?: number;
}

export interface DistinctAnswersFound {
  readonly rows: readonly DistinctAnswers[];
  /** Why somebody has no row, by name. */
  readonly failed: ReadonlyMap<string, string>;
  /** Names of those who broke a promise. */
  readonly broken: readonly string[];
}

/** Every answerer meets the same crowds, one after the other. */
export async function findDistinctAnswers(
  answerers: AsyncIterable<Answerer> | Iterable<Answerer>,
  crowds: readonly Crowd[],
  log: (line: string) => void,
): Promise<DistinctAnswersFound> {
  const rows: DistinctAnswers[] = [];
  const failed = new Map<string, string>();
  const broken: string[] = [];
  for await (const answerer of answerers) {
    log(`equal requests under load: ${answerer.name}`);
    const answers = await unlessItFails(answerer, () => answersOf(answerer, crowds), failed, log);
    if (!answers) continue;
    const rollbacks = answerer.rollbacks?.();
    const difference = distinctAnswers(answers);
    if (answerer.promise === 'equal' && difference.distinct > 1) broken.push(answerer.name);
    rows.push({
      contender: answerer.name,
      requests: answers.length,
      ...difference,
      ...(rollbacks !== undefined && { rollbacks }),
    });
  }
  return { rows, failed, broken };
}

async function answersOf(answerer: Answerer, crowds: readonly Crowd[]): Promise<(readonly number[])[]> {
  const answers: (readonly number[])[] = [];
  for (const crowd of crowds) {
    const found = await answerer.answer(crowd);
    const targets = crowd.lanes.filter(({ kind }) => kind === 'target').length;
    const { outputTokens } = crowd.target;
    if (found.length !== targets || found.some(({ length }) => length !== outputTokens))
      throw new Error(
        `a crowd got answers of ${found.map(({ length }) => length)} tokens, expected ${targets} of ${outputTokens}`,
      );
    answers.push(...found);
  }
  return answers;
}

/** For tables. */
export function distinctAnswersRow({ contender, requests, distinct, firstDifference, rollbacks }: DistinctAnswers) {
  return {
    contender,
    'equal requests': requests,
    'different answers': distinct,
    'first difference': firstDifference === undefined ? 'none' : `token ${firstDifference}`,
    rollbacks: rollbacks ?? '',
  };
}
