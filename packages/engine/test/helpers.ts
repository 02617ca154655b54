import type { Backend, BackendLoad } from '@stet/backend';
import type { LoadedModel, Tokenizer } from '@stet/model';
import { createFakeBackend, type FakeBackend, type FakeBackendOptions, fakeLoad } from '@stet/testing';
import { type CreateEngineOptions, createEngine, type GenerateEvent, type StetEngine } from '../src/index.js';

/** Ids 0..255 are the bytes, 256 ends a text, the rest are the `pieces`. */
export const EOS = 256;

export function byteTokenizer(pieces: readonly string[]): Tokenizer {
  const encoder = new TextEncoder();
  const bytesOf = (id: number) =>
    id < 256 ? Uint8Array.of(id) : id === EOS ? new Uint8Array(0) : encoder.encode(pieces[id - 257] ?? '');
  return {
    vocabSize: 257 + pieces.length,
    kind: 'bytes',
    specialIds: new Set([EOS]),
    encode: (text) => [...encoder.encode(text)],
    decode: (ids) => new TextDecoder().decode(Uint8Array.from([...ids].flatMap((id) => [...bytesOf(id)]))),
    idOf: () => undefined,
    pieces: { leadingSpaces: 0, bytes: bytesOf },
  };
}

/** What an engine passes over in a model: it is for people, and the toy has no files. */
export const toyFacts = {
  rope: { type: 'default', theta: 10000 },
  parameterCount: 0,
  storage: { files: [], bytes: 0, tensorTypes: [] },
  formats: [],
} as const satisfies Partial<LoadedModel>;

export interface FakeEngineOptions extends FakeBackendOptions {
  readonly engine?: Partial<Omit<CreateEngineOptions, 'model' | 'backend'>>;
  readonly model?: Partial<LoadedModel>;
  readonly pieces?: readonly string[];
  readonly contextLength?: number;
  /** Runs before each backend is made, the first one (0) too; may refuse it. */
  readonly beforeCreate?: (creation: number, load: BackendLoad) => void | Promise<void>;
  /** What the engine gets in place of the fake backend. */
  readonly wrap?: (backend: Backend, creation: number) => Backend;
}

export interface FakeEngine extends AsyncDisposable {
  readonly engine: StetEngine;
  /** The latest one. */
  readonly backend: FakeBackend;
  /** Backends that the engine asked for. */
  readonly creations: () => number;
  /** Bytes of all backends that are not closed. */
  readonly liveBytes: () => number;
  /** Calls of the model's `close`. */
  readonly closedModels: () => number;
}

/**
 * An engine over the toy language model, whose tokens are bytes. Deterministic requests are verified in windows: what is
 * cheapest on a toy, which `auto` would find out, shows nothing of them.
 */
export async function fakeEngine(options: FakeEngineOptions = {}): Promise<FakeEngine> {
  const { engine: engineOptions, model, pieces = [], contextLength = 256, ...rest } = options;
  const { wrap = (one) => one, beforeCreate, ...fake } = rest;
  const tokenizer = byteTokenizer(pieces);
  const load = fakeLoad({ vocabSize: tokenizer.vocabSize, contextLength });
  let closedModels = 0;
  let creations = 0;
  let backend: FakeBackend | undefined;
  const create = createFakeBackend(fake);
  const engine = await createEngine({
    model: {
      name: 'toy',
      architecture: 'fake',
      plan: load.plan,
      ...toyFacts,
      weights: load.weights,
      tokenizer,
      eosIds: [EOS],
      contextLength,
      generationDefaults: {},
      digest: '0'.repeat(64),
      close: async () => {
        closedModels++;
      },
      ...model,
    },
    backend: async (given) => {
      const creation = creations++;
      await beforeCreate?.(creation, given);
      backend = await create(given);
      return wrap(backend, creation);
    },
    kv: { blockCount: 64 },
    policy: 'dvr',
    ...engineOptions,
  });
  return {
    engine,
    get backend() {
      return backend!;
    },
    creations: () => creations,
    liveBytes: () => create.liveBytes(),
    closedModels: () => closedModels,
    [Symbol.asyncDispose]: () => engine.close(),
  };
}

export type EventOf<Type extends GenerateEvent['type']> = Extract<GenerateEvent, { type: Type }>;

export interface ReadAnswer {
  readonly events: GenerateEvent[];
  readonly accepted: EventOf<'accepted'>;
  readonly commits: EventOf<'commit'>[];
  readonly tokens: number[];
  readonly text: string;
  readonly logprobs: NonNullable<EventOf<'commit'>['logprobs']>[number][];
  readonly hash: string;
  readonly done: EventOf<'done'>;
}

export async function readAll(stream: AsyncIterable<GenerateEvent>): Promise<ReadAnswer> {
  const events: GenerateEvent[] = [];
  for await (const event of stream) events.push(event);
  return summarize(events);
}

export function summarize(events: GenerateEvent[]): ReadAnswer {
  const commits = events.filter((event) => event.type === 'commit');
  return {
    events,
    accepted: events[0] as EventOf<'accepted'>,
    commits,
    tokens: commits.flatMap((commit) => commit.tokens),
    text: commits.map((commit) => commit.text).join(''),
    logprobs: commits.flatMap((commit) => commit.logprobs ?? []),
    hash: commits.at(-1)?.hash ?? '',
    done: events.at(-1) as EventOf<'done'>,
  };
}

/** The bits of every number of an answer's log-probabilities. */
export function logprobBits(answer: ReadAnswer): string[] {
  const hex = (value: number) => new BigUint64Array(Float64Array.of(value).buffer)[0]!.toString(16);
  return answer.logprobs.map(
    ({ token, logprob, top }) =>
      `${token}:${hex(logprob)} ${top.map((one) => `${one.token}:${hex(one.logprob)}`).join(' ')}`,
  );
}

/** Waits until the condition holds, a few thousand turns of the event loop at most. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  for (let turn = 0; turn < 5000; turn++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  throw new Error(`waited in vain until ${what}`);
}

/** Makes the fake spell `output` after a prompt of `promptLength` tokens. */
export function spell(output: readonly number[], promptLength: number): NonNullable<FakeBackendOptions['script']> {
  return (context) => output[context.length - promptLength];
}

export const utf8 = (text: string): number[] => [...new TextEncoder().encode(text)];
