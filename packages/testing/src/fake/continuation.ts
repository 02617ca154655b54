import { assert } from '@stet/backend';
import {
  argmaxOf,
  extendContext,
  type FakeScript,
  fillLogits,
  forceToken,
  initialContext,
  kvWord,
} from './toy-model.js';

export interface FakeOracleOptions {
  /** Default 64. */
  readonly vocabSize?: number;
  /** The fake's own seed; default 0. */
  readonly seed?: number;
  /** The fake's own script. */
  readonly script?: FakeScript;
}

/** Picks a token from canonical logits (vocabSize); outputIndex counts from 0, context is prompt and output so far. */
export type FakeSampler = (logits: Float32Array, outputIndex: number, context: readonly number[]) => number;

/** The canonical logits after a context, computed without blocks, batches or schedules. */
export function fakeLogits(context: readonly number[], options: FakeOracleOptions = {}): Float32Array {
  let state = initialContext(options.seed ?? 0);
  context.forEach((token, position) => {
    state = extendContext(state, kvWord(state, token, position), 'canonical');
  });
  return logitsOf(state, context, options);
}

/** The tokens that a canonical sequence must produce after a prompt; greedy unless `sample` says otherwise. */
export function fakeContinuation(
  promptTokens: readonly number[],
  count: number,
  sample: FakeSampler = argmaxOf,
  options: FakeOracleOptions = {},
): number[] {
  assert(promptTokens.length > 0, 'a prompt has a token');
  const context = [...promptTokens];
  let state = initialContext(options.seed ?? 0);
  const output: number[] = [];
  for (let position = 0; output.length < count; position++) {
    state = extendContext(state, kvWord(state, context[position]!, position), 'canonical');
    if (position < promptTokens.length - 1) continue;
    const token = sample(logitsOf(state, context, options), output.length, context);
    output.push(token);
    context.push(token);
  }
  return output;
}

function logitsOf(state: number, context: readonly number[], options: FakeOracleOptions): Float32Array {
  const logits = new Float32Array(options.vocabSize ?? 64);
  fillLogits(state, logits);
  const forced = options.script?.(context, 'canonical');
  if (forced !== undefined) forceToken(logits, forced);
  return logits;
}
