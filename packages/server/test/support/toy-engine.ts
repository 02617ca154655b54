import { createEngine, dvr, type StetEngine } from '@stet/engine';
import type { Tokenizer } from '@stet/model';
import { createFakeBackend, fakeLoad } from '@stet/testing';

const END = 256;
const CONTEXT = 512;

/** Ids are bytes, and one more ends a text. */
const tokenizer: Tokenizer = {
  vocabSize: END + 1,
  kind: 'bytes',
  specialIds: new Set([END]),
  encode: (text) => [...new TextEncoder().encode(text)],
  decode: (ids) => new TextDecoder().decode(Uint8Array.from([...ids].filter((id) => id < END))),
  idOf: () => undefined,
  pieces: { leadingSpaces: 0, bytes: (id) => (id < END ? Uint8Array.of(id) : new Uint8Array(0)) },
};

/**
 * The real engine over a toy model, whose fast schedule is wrong as often as asked: windows are verified, fail and are
 * rolled back. Prompts of more than 16 bytes take several steps of prefill.
 */
export function toyEngine(mismatchRate: number): Promise<StetEngine> {
  const load = fakeLoad({ vocabSize: tokenizer.vocabSize, contextLength: CONTEXT });
  return createEngine({
    model: {
      name: 'toy',
      architecture: 'fake',
      plan: load.plan,
      weights: load.weights,
      tokenizer,
      eosIds: [END],
      contextLength: CONTEXT,
      generationDefaults: {},
      digest: '0'.repeat(64),
      rope: { type: 'default', theta: 10_000 },
      parameterCount: 0,
      storage: { files: [], bytes: 0, tensorTypes: [] },
      formats: [],
      close: async () => {},
    },
    backend: createFakeBackend({ mismatchRate }),
    policy: dvr({ windowTokens: 8 }),
    kv: { blockCount: 300 },
    limits: { maxRows: 16, maxUnreadTokens: 32 },
  });
}
