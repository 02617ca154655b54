import type { GenerateRequest } from '@stet/engine';
import { seededUniform } from '../random.js';
import type { StudyModel } from '../study/study-model.js';
import type { TextName } from '../texts.js';
import type { Schedule } from './schedule.js';
import type { Work } from './work.js';

/** Tokens of a prompt: most are short, since every row of them is one. */
const PROMPT = 6;
/** More than a chunk of attention, which is 64 positions; and four blocks of K/V, for the prefix cache. */
const LONG_PROMPT = 70;
/** Random ones beside are still there when those that are asked have ended. */
const BESIDE_TOKENS = 400;
const BESIDE_PROMPT = 8;

export type RequestModel = Pick<StudyModel, 'texts' | 'vocabSize' | 'contextLength'>;

/**
 * The requests of the matrix, without saying whether they are deterministic: greedy and seeded, with every way from a logit to a token.
 * All tell the log-probabilities of the two likeliest tokens.
 */
export function askedRequests({ texts, contextLength }: RequestModel, maxTokens: number): GenerateRequest[] {
  const prompt = (name: TextName, start: number, count: number) =>
    texts.get(name)!.slice(start, start + Math.min(count, Math.floor(contextLength / 4)));
  const common = { maxTokens, logprobs: 2, ignoreEos: true };
  const penalized = prompt('dialogue', 0, PROMPT);
  return [
    { ...common, promptTokens: prompt('tale', 0, PROMPT), temperature: 0 },
    { ...common, promptTokens: prompt('prose', 0, PROMPT), temperature: 0.8, topP: 0.9, topK: 40, seed: 7 },
    {
      ...common,
      ...{ promptTokens: penalized, temperature: 1, minP: 0.02, seed: 2 ** 40 + 11 },
      ...{ repetitionPenalty: 1.2, frequencyPenalty: 0.4, presencePenalty: 0.3 },
      logitBias: { [penalized[1]!]: -2, [penalized[2]!]: 1.5 },
    },
    { ...common, promptTokens: prompt('tale', 100, PROMPT), temperature: 0, stop: ['.', ' and', ','] },
    { ...common, promptTokens: prompt('tale', 200, LONG_PROMPT), temperature: 0.7, seed: 3 },
    { ...common, promptTokens: prompt('code', 0, PROMPT), temperature: 1.5, seed: 0 },
  ];
}

/** All that an engine is asked under a schedule. Who is beside differs from schedule to schedule, who is asked does not. */
export function workOf(schedule: Schedule, asked: readonly GenerateRequest[], model: RequestModel, seed: number): Work {
  const deterministic = schedule.rows === 'canonical';
  const requests = asked.slice(0, schedule.requests).map((request) => ({ ...request, deterministic }));
  // One at least is beside, who is random.
  const askedAtOnce = Math.min(Math.max(1, schedule.batch - 1), requests.length);
  const uniform = seededUniform(seed + schedule.batch * 1009 + schedule.maxRows);
  const groups: Work['groups'] = Array.from({ length: Math.ceil(requests.length / askedAtOnce) }, (_, group) => {
    const members = requests.slice(group * askedAtOnce, (group + 1) * askedAtOnce);
    return {
      asked: members,
      beside: Array.from({ length: schedule.batch - members.length }, () => besideRequest(uniform, model)),
    };
  });
  return { schedule, groups };
}

function besideRequest(uniform: () => number, { vocabSize, contextLength }: RequestModel): GenerateRequest {
  const below = (count: number) => Math.floor(uniform() * count);
  return {
    promptTokens: Array.from({ length: 1 + below(BESIDE_PROMPT) }, () => below(vocabSize)),
    maxTokens: Math.min(BESIDE_TOKENS, Math.floor(contextLength / 2)),
    temperature: uniform() < 0.5 ? 0 : 1,
    seed: below(2 ** 32),
    deterministic: uniform() < 0.5,
    ignoreEos: true,
  };
}
