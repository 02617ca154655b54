import * as z from 'zod';
import { protocolLimits } from '../protocol/index.js';

const { maxStopCharacters, maxStopStrings, maxTopLogprobs } = protocolLimits;

/**
 * The bodies of OpenAI's API as the OpenAPI document describes them. They are checked by the engine, which knows the
 * model's vocabulary and context; a test holds the two against each other. Null means absent.
 */
const commonFields = {
  model: z.string().nullish().describe('The model that is served; it may be left out.'),
  max_tokens: z.int().min(1).nullish(),
  temperature: z.number().min(0).max(100).nullish().describe('1 by default; 0 is greedy.'),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(0).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  n: z.int().min(1).max(16).nullish(),
  best_of: z.int().min(1).max(16).nullish().describe('Must be the same as n.'),
  stop: z
    .union([
      z.string().min(1).max(maxStopCharacters),
      z.array(z.string().min(1).max(maxStopCharacters)).max(maxStopStrings),
    ])
    .nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  repetition_penalty: z.number().min(0.1).max(10).nullish(),
  logit_bias: z.record(z.string().regex(/^(0|[1-9]\d{0,9})$/), z.number().min(-100).max(100)).nullish(),
  seed: z.int().min(0).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z
    .object({ include_usage: z.boolean().nullish(), include_obfuscation: z.boolean().nullish() })
    .nullish(),
  ignore_eos: z.boolean().nullish(),
  deterministic: z
    .boolean()
    .nullish()
    .describe('Same tokens and log-probabilities, bit for bit, whatever shares the batch.'),
  is_deterministic: z.boolean().nullish().describe('Another name of deterministic.'),
  user: z.string().nullish().describe('Ignored.'),
} as const;

const textPartSchema = z.object({ type: z.literal('text'), text: z.string() });

export const chatRequestSchema = z
  .looseObject({
    messages: z
      .array(
        z.object({
          role: z.string().min(1).max(64),
          content: z.union([z.string(), z.array(textPartSchema)]),
          name: z.string().nullish(),
        }),
      )
      .min(1)
      .max(protocolLimits.maxMessages),
    ...commonFields,
    max_completion_tokens: z.int().min(1).nullish().describe('Another name of max_tokens.'),
    logprobs: z.boolean().nullish(),
    top_logprobs: z.int().min(0).max(maxTopLogprobs).nullish(),
  })
  .describe('Fields that are not listed are an error in a deterministic request and ignored with a warning in others.');

const tokenIdsSchema = z.array(z.int().min(0)).min(1);

export const textRequestSchema = z
  .looseObject({
    prompt: z
      .union([z.string(), tokenIdsSchema, z.array(z.string()).min(1), z.array(tokenIdsSchema).min(1)])
      .describe('One prompt, as text or as token ids, or several: n choices for each, those of the first one first.'),
    ...commonFields,
    max_tokens: z.int().min(0).nullish().describe('16 by default; 0 only with echo.'),
    logprobs: z.int().min(0).max(maxTopLogprobs).nullish(),
    echo: z
      .boolean()
      .nullish()
      .describe(
        'Begin with the prompt; with logprobs, its tokens are scored, deterministically unless told otherwise.',
      ),
  })
  .describe('Fields that are not listed are an error in a deterministic request and ignored with a warning in others.');
