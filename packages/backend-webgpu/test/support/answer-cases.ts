import type { WeightFormat } from '@stet/backend';
import type { GenerateRequest, TextParams } from '@stet/engine';

/** A deterministic request to the embedded model. */
export type AnswerCase = { readonly name: string; readonly format: WeightFormat } & (
  | { readonly kind: 'generate'; readonly request: GenerateRequest }
  | { readonly kind: 'choices'; readonly params: TextParams }
);

/** More than a chunk of attention, and five K/V blocks. */
const STORY =
  'One day a little fox named Finn found a bright red kite in the big tree by the river. He wanted to fly it, but the ' +
  'wind was asleep. So Finn sat down under the tree and waited, and waited, and his friend the owl came to see what the ' +
  'kite was for. "It is for the sky," said Finn';

/** Short, because some devices are slow; together they take every way from a logit to a token. */
export const answerCases: readonly AnswerCase[] = [
  generate('greedy', { prompt: 'Once upon a time', logprobs: 3 }),
  generate('nucleus', { prompt: 'The king', temperature: 0.8, topP: 0.9, topK: 40, seed: 7, logprobs: 2 }),
  generate('penalties', {
    prompt: 'Lily and Tom went to the park. Lily',
    temperature: 1,
    minP: 0.02,
    repetitionPenalty: 1.2,
    frequencyPenalty: 0.4,
    presencePenalty: 0.3,
    logitBias: { '10': -2, '300': 1.5 },
    seed: 2 ** 40 + 11,
    logprobs: 1,
  }),
  generate('stop string', { prompt: 'The dog was', stop: ['.', ' and'], maxTokens: 16, logprobs: 0 }),
  generate('long prompt', { prompt: STORY, maxTokens: 4, temperature: 0.7, seed: 3, logprobs: 2 }),
  generate('token ids', { promptTokens: [0, 4095, 17, 300, 300], temperature: 1.5, seed: 0, logprobs: 4 }),
  {
    name: 'three choices',
    format: 'bf16',
    kind: 'choices',
    params: { prompt: 'A bear and a bee', n: 3, temperature: 0.9, top_p: 0.95, seed: 5, logprobs: 2, max_tokens: 6 },
  },
  generate('greedy in q8', { prompt: 'Once upon a time', logprobs: 3 }, 'q8'),
  generate('nucleus in q8', { prompt: 'The king', temperature: 0.8, topP: 0.9, seed: 7, logprobs: 2 }, 'q8'),
  generate('greedy in q4', { prompt: 'Once upon a time', logprobs: 3 }, 'q4'),
  generate('nucleus in q4', { prompt: 'The king', temperature: 0.8, topP: 0.9, seed: 7, logprobs: 2 }, 'q4'),
];

export const answerFormats: readonly WeightFormat[] = [...new Set(answerCases.map(({ format }) => format))];

function generate(name: string, request: GenerateRequest, format: WeightFormat = 'bf16'): AnswerCase {
  return { name, format, kind: 'generate', request: { maxTokens: 8, seed: 1, ...request } };
}
