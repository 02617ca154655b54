import { type Answer, type Answers, bitsOf } from '../../src/matrix/work.js';

/** A token with two likeliest ones, `gap` apart. */
export function step(token: number, { logprob = -0.5, gap = 0.25 } = {}): string {
  return `${token} ${bitsOf(logprob)} ${token}:${bitsOf(logprob)} 9:${bitsOf(logprob - gap)}`;
}

export function answer(steps: readonly string[], rest: Partial<Answer> = {}): Answer {
  return { steps, hash: steps.map((one) => one.split(' ')[0]).join('.'), finishReason: 'length', ...rest };
}

export function answers(all: readonly Answer[], rest: Partial<Answers> = {}): Answers {
  return {
    ...{ kind: 'answers', device: 'a device', fingerprint: 'f', rollbacks: 0, cachedTokens: 0 },
    answers: all,
    ...rest,
  } as Answers;
}
