import * as z from 'zod';
import { protocolLimits } from './constants.js';

const { maxCreditTokens, maxHandleLength, maxIdLength, maxStopCharacters, maxStopStrings, maxTopLogprobs } =
  protocolLimits;

/** Chosen by the client, unique among the open streams of a socket. */
export const streamIdSchema = z.string().min(1).max(maxIdLength);

/** Output tokens that the server may send. */
const creditSchema = z.int().min(1).max(maxCreditTokens);

export const chatMessageSchema = z.object({ role: z.string(), content: z.string() });

/**
 * Token ids. One check over the whole array: a frame can hold half a million of them, and a schema per element would
 * make as many issues out of a bad one.
 */
const tokenIdsSchema = z
  .custom<number[]>(isTokenIds, { error: 'expected an array of token ids, whole numbers from 0' })
  .meta({ type: 'array', items: { type: 'integer', minimum: 0 } });

/** Checked by hand because a record schema drops a key named `__proto__` silently. */
const logitBiasSchema = z
  .custom<Record<string, number>>(isLogitBias, { error: 'expected an object of token id to number' })
  .meta({ type: 'object', propertyNames: { pattern: '^[0-9]{1,10}$' }, additionalProperties: { type: 'number' } });

const stopStringSchema = z.string().min(1).max(maxStopCharacters);

/** Asks for one stream. Exactly one of `prompt`, `promptTokens` and `messages`. */
export const generateFrameSchema = z.object({
  type: z.literal('generate'),
  id: streamIdSchema,
  prompt: z.exactOptional(z.string()),
  promptTokens: z.exactOptional(tokenIdsSchema),
  messages: z.exactOptional(z.array(chatMessageSchema)),
  /** Must be the model that the server serves. */
  model: z.exactOptional(z.string()),
  maxTokens: z.exactOptional(z.int().min(1)),
  deterministic: z.exactOptional(z.boolean()),
  /** Alias of `deterministic`. */
  is_deterministic: z.exactOptional(z.boolean()),
  seed: z.exactOptional(z.int().min(0)),
  temperature: z.exactOptional(z.number().min(0)),
  topK: z.exactOptional(z.int().min(0)),
  topP: z.exactOptional(z.number().gt(0).max(1)),
  minP: z.exactOptional(z.number().min(0).max(1)),
  frequencyPenalty: z.exactOptional(z.number()),
  presencePenalty: z.exactOptional(z.number()),
  repetitionPenalty: z.exactOptional(z.number().gt(0)),
  logitBias: z.exactOptional(logitBiasSchema),
  stop: z.exactOptional(z.union([stopStringSchema, z.array(stopStringSchema).max(maxStopStrings)])),
  logprobs: z.exactOptional(z.int().min(0).max(maxTopLogprobs)),
  provisional: z.exactOptional(z.boolean()),
  priority: z.exactOptional(z.int().min(-100).max(100)),
  ignoreEos: z.exactOptional(z.boolean()),
  /**
   * Output tokens that the client has from an earlier run of this deterministic request, with its seed: they are computed
   * again, held against `hash` and not sent.
   */
  after: z.exactOptional(z.int().min(1)),
  /** Of those tokens, from the commit that ended with them. */
  hash: z.exactOptional(z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 hexadecimal digits in lower case')),
  /** Commits stop after so many output tokens, until {@link creditFrameSchema} gives more. */
  credit: z.exactOptional(creditSchema),
});

/**
 * Goes on, as stream `id` of this socket, with the stream of that handle (`accepted.stream`), whose socket was lost.
 * `after`: the output tokens that the client has.
 */
export const resumeFrameSchema = z.strictObject({
  type: z.literal('resume'),
  id: streamIdSchema,
  stream: z.string().min(1).max(maxHandleLength),
  after: z.int().min(0),
  /** As in `generate`, counted from `after` on. */
  credit: z.exactOptional(creditSchema),
});

/** Lets the stream `id`, which was asked for with `credit`, send `n` output tokens more. */
export const creditFrameSchema = z.strictObject({ type: z.literal('credit'), id: streamIdSchema, n: creditSchema });

/** Ends the stream `id`; its last frame is the error `STET_ERR_ABORTED`. */
export const cancelFrameSchema = z.strictObject({ type: z.literal('cancel'), id: streamIdSchema });

/** Answered by a pong with the same `t`. */
export const pingFrameSchema = z.strictObject({ type: z.literal('ping'), t: z.number() });

export const clientFrameSchema = z.discriminatedUnion('type', [
  generateFrameSchema,
  resumeFrameSchema,
  creditFrameSchema,
  cancelFrameSchema,
  pingFrameSchema,
]);

export type GenerateFrame = z.infer<typeof generateFrameSchema>;
export type ResumeFrame = z.infer<typeof resumeFrameSchema>;
export type CreditFrame = z.infer<typeof creditFrameSchema>;
export type CancelFrame = z.infer<typeof cancelFrameSchema>;
export type PingFrame = z.infer<typeof pingFrameSchema>;
export type ClientFrame = z.infer<typeof clientFrameSchema>;

function isTokenIds(value: unknown): boolean {
  return Array.isArray(value) && value.every((token) => Number.isSafeInteger(token) && token >= 0);
}

function isLogitBias(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(([token, bias]) => /^[0-9]{1,10}$/.test(token) && Number.isFinite(bias));
}
