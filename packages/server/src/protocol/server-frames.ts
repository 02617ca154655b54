import type { GenerateEvent } from '@stet/engine';
import * as z from 'zod';
import { streamIdSchema } from './client-frames.js';

type EventOf<T extends GenerateEvent['type']> = Extract<GenerateEvent, { type: T }>;

/** What every frame of a stream carries. `seq` counts the stream's frames: 0, 1, 2, … */
interface StreamFields {
  readonly id: string;
  readonly seq: number;
}

/** The first frame of a stream: what will really be used, defaults filled in. */
export type AcceptedFrame = StreamFields &
  EventOf<'accepted'> & {
    /** The server's own name of the stream: the handle to resume it by, which its log uses too. */
    readonly stream: string;
    /** The output tokens that the client said it has: the first commit begins there. Absent in a stream from the start. */
    readonly after?: number;
    /** Fields of the request that were ignored; absent when there are none. */
    readonly warnings?: readonly string[];
  };
export type CommitFrame = StreamFields & EventOf<'commit'>;
export type ProvisionalFrame = StreamFields & EventOf<'provisional'>;
export type RollbackFrame = StreamFields & EventOf<'rollback'>;
export type DoneFrame = StreamFields & EventOf<'done'>;

/**
 * With `seq` it is the last frame of the stream `id`. Without `seq` it answers a client frame that started no stream,
 * and every open stream goes on; `id` is then the one that the client frame named, if it named one.
 */
export interface ErrorFrame {
  readonly type: 'error';
  readonly id?: string;
  readonly seq?: number;
  readonly code: string;
  readonly message: string;
  /** The same request may succeed later. */
  readonly retryable: boolean;
  readonly hint?: string;
}

export interface PongFrame {
  readonly type: 'pong';
  readonly t: number;
}

export type StreamFrame = AcceptedFrame | CommitFrame | ProvisionalFrame | RollbackFrame | DoneFrame;
export type ServerFrame = StreamFrame | ErrorFrame | PongFrame;

const count = z.int().min(0);
const tokens = z.array(count);
const milliseconds = z.number().min(0);
const streamFields = { id: streamIdSchema, seq: count };

const paramsSchema = z.strictObject({
  maxTokens: count,
  deterministic: z.boolean(),
  temperature: z.number(),
  topK: count,
  topP: z.number(),
  minP: z.number(),
  frequencyPenalty: z.number(),
  presencePenalty: z.number(),
  repetitionPenalty: z.number(),
  logitBias: z.record(z.string(), z.number()),
  stop: z.array(z.string()),
  logprobs: z.exactOptional(count),
  provisional: z.boolean(),
  priority: z.int(),
  ignoreEos: z.boolean(),
});

const tokenLogprobSchema = z.strictObject({ token: count, text: z.string(), logprob: z.number() });

export const acceptedFrameSchema: z.ZodType<AcceptedFrame> = z.strictObject({
  type: z.literal('accepted'),
  ...streamFields,
  stream: z.string(),
  after: z.exactOptional(count),
  fingerprint: z.string(),
  seed: count,
  promptTokens: count,
  params: paramsSchema,
  warnings: z.exactOptional(z.array(z.string())),
});

export const commitFrameSchema: z.ZodType<CommitFrame> = z.strictObject({
  type: z.literal('commit'),
  ...streamFields,
  from: count,
  tokens,
  text: z.string(),
  logprobs: z.exactOptional(z.array(tokenLogprobSchema.extend({ top: z.array(tokenLogprobSchema) }))),
  hash: z.string(),
});

export const provisionalFrameSchema: z.ZodType<ProvisionalFrame> = z.strictObject({
  type: z.literal('provisional'),
  ...streamFields,
  from: count,
  tokens,
  text: z.string(),
});

export const rollbackFrameSchema: z.ZodType<RollbackFrame> = z.strictObject({
  type: z.literal('rollback'),
  ...streamFields,
  to: count,
});

export const doneFrameSchema: z.ZodType<DoneFrame> = z.strictObject({
  type: z.literal('done'),
  ...streamFields,
  finishReason: z.enum(['stop', 'length']),
  usage: z.strictObject({ promptTokens: count, completionTokens: count, totalTokens: count }),
  stats: z.strictObject({
    windows: count,
    rollbacks: count,
    recomputedTokens: count,
    draftedTokens: count,
    acceptedTokens: count,
    cachedTokens: count,
    preemptions: count,
    queueMs: milliseconds,
    prefillMs: milliseconds,
    decodeMs: milliseconds,
  }),
  receipt: z.exactOptional(
    z.strictObject({
      fingerprint: z.string(),
      numerics: z.string(),
      level: z.enum(['seeded', 'same-build', 'portable']),
      seed: count,
      promptHash: z.string(),
      outputHash: z.string(),
      outputTokens: count,
    }),
  ),
});

export const errorFrameSchema: z.ZodType<ErrorFrame> = z.strictObject({
  type: z.literal('error'),
  id: z.exactOptional(streamIdSchema),
  seq: z.exactOptional(count),
  code: z.string(),
  message: z.string(),
  retryable: z.boolean(),
  hint: z.exactOptional(z.string()),
});

export const pongFrameSchema: z.ZodType<PongFrame> = z.strictObject({ type: z.literal('pong'), t: z.number() });

/** For tests and generated documents; neither end checks server frames at run time. */
export const serverFrameSchema: z.ZodType<ServerFrame> = z.union([
  acceptedFrameSchema,
  commitFrameSchema,
  provisionalFrameSchema,
  rollbackFrameSchema,
  doneFrameSchema,
  errorFrameSchema,
  pongFrameSchema,
]);
