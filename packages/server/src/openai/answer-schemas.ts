import * as z from 'zod';

const finishReasonSchema = z.enum(['stop', 'length']);

const usageSchema = z.strictObject({
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  total_tokens: z.int(),
  prompt_tokens_details: z.strictObject({ cached_tokens: z.int() }),
});

const receiptSchema = z.strictObject({
  fingerprint: z.string(),
  numerics: z.string(),
  level: z.enum(['seeded', 'same-build', 'portable']),
  seed: z.int(),
  promptHash: z.string(),
  outputHash: z.string(),
  outputTokens: z.int(),
});

const stetSchema = z
  .strictObject({
    deterministic: z.boolean(),
    seed: z.int(),
    seeds: z.exactOptional(z.array(z.int())),
    windows: z.int(),
    rollbacks: z.int(),
    receipt: z.exactOptional(receiptSchema),
    receipts: z.exactOptional(z.array(receiptSchema)),
    warnings: z.exactOptional(z.array(z.string())),
  })
  .describe('What Stet adds: the seed that was used, and for a deterministic answer what it can be checked by.');

const head = {
  id: z.string(),
  created: z.int().describe('Unix time in seconds.'),
  model: z.string(),
  system_fingerprint: z.string(),
} as const;

const scoredToken = {
  token: z.string(),
  logprob: z.number(),
  bytes: z.array(z.int().min(0).max(255)).nullable(),
} as const;
const chatLogprobsSchema = z.strictObject({
  content: z.array(z.strictObject({ ...scoredToken, top_logprobs: z.array(z.strictObject(scoredToken)) })),
  refusal: z.null(),
});

const textLogprobsSchema = z.strictObject({
  tokens: z.array(z.string()),
  token_logprobs: z.array(z.number().nullable()),
  top_logprobs: z.array(z.record(z.string(), z.number()).nullable()),
  text_offset: z.array(z.int()),
});

export const chatCompletionSchema = z.strictObject({
  ...head,
  object: z.literal('chat.completion'),
  choices: z.array(
    z.strictObject({
      index: z.int(),
      message: z.strictObject({ role: z.literal('assistant'), content: z.string(), refusal: z.null() }),
      logprobs: chatLogprobsSchema.nullable(),
      finish_reason: finishReasonSchema,
    }),
  ),
  usage: usageSchema,
  stet: stetSchema,
});

export const chatChunkSchema = z.strictObject({
  ...head,
  object: z.literal('chat.completion.chunk'),
  choices: z.array(
    z.strictObject({
      index: z.int(),
      delta: z.strictObject({
        role: z.exactOptional(z.literal('assistant')),
        content: z.exactOptional(z.string()),
      }),
      logprobs: chatLogprobsSchema.nullable(),
      finish_reason: finishReasonSchema.nullable(),
    }),
  ),
  usage: z.exactOptional(usageSchema.nullable()),
  stet: z.exactOptional(stetSchema),
});

export const textCompletionSchema = z.strictObject({
  ...head,
  object: z.literal('text_completion'),
  choices: z.array(
    z.strictObject({
      index: z.int(),
      text: z.string(),
      logprobs: textLogprobsSchema.nullable(),
      finish_reason: finishReasonSchema,
    }),
  ),
  usage: usageSchema,
  stet: stetSchema,
});

export const textChunkSchema = z.strictObject({
  ...head,
  object: z.literal('text_completion'),
  choices: z.array(
    z.strictObject({
      index: z.int(),
      text: z.string(),
      logprobs: textLogprobsSchema.nullable(),
      finish_reason: finishReasonSchema.nullable(),
    }),
  ),
  usage: z.exactOptional(usageSchema.nullable()),
  stet: z.exactOptional(stetSchema),
});

export const modelSchema = z.strictObject({
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
});

export const modelListSchema = z.strictObject({ object: z.literal('list'), data: z.array(modelSchema) });

export const errorSchema = z.strictObject({
  error: z.strictObject({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().describe('Stable; docs/ERRORS.md lists them all.'),
  }),
});
