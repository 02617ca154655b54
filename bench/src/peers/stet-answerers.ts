import { createCpuBackend } from '@stet/backend-cpu';
import { createEngine, dvr, type StetEngine } from '@stet/engine';
import type { FormatCase } from '../formats.js';
import { type Ask, askCrowd } from './crowds.js';
import type { Answerer } from './distinct-answers.js';

export interface StetAnswerers {
  readonly answerers: readonly Answerer[];
  close(): Promise<void>;
}

/**
 * The model in one format, asked for ordinary and for deterministic answers. Deterministic requests are drafted by fast rows
 * and verified in windows, whatever would be quicker: that is where batches could show.
 */
export async function openStetAnswerers(
  path: string,
  { title, format }: FormatCase,
  threads: number,
): Promise<StetAnswerers> {
  const engine = await createEngine({
    model: path,
    format,
    backend: createCpuBackend({ threads }),
    policy: dvr(),
    // As with the others: equal prompts would be read once, by whoever comes first.
    prefixCache: 'off',
  });
  return {
    answerers: [
      ordinaryAnswerer(`stet ${title} ordinary`, engine),
      deterministicAnswerer(`stet ${title} deterministic`, engine),
    ],
    close: () => engine.close(),
  };
}

function ordinaryAnswerer(name: string, engine: StetEngine): Answerer {
  const ask = askOf(engine, false, () => {});
  return { name, kind: 'ours', promise: 'none', answer: (crowd) => askCrowd(crowd, ask) };
}

function deterministicAnswerer(name: string, engine: StetEngine): Answerer {
  let rollbacks = 0;
  const ask = askOf(engine, true, (count) => {
    rollbacks += count;
  });
  return {
    name,
    kind: 'ours',
    promise: 'equal',
    answer: (crowd) => askCrowd(crowd, ask),
    rollbacks: () => rollbacks,
  };
}

/** `noteRollbacks`: of each target. */
function askOf(engine: StetEngine, deterministic: boolean, noteRollbacks: (count: number) => void): Ask {
  return async ({ promptTokens, outputTokens }, shared, lane) => {
    const request = { promptTokens, maxTokens: outputTokens, temperature: 0, seed: 0, ignoreEos: true };
    const kind = { deterministic: lane.kind === 'target' ? deterministic : lane.deterministic };
    // A signal of its own: Node warns of a leak where many listeners share one.
    const signal = AbortSignal.any([shared]);
    const tokens: number[] = [];
    for await (const event of engine.generate({ ...request, ...kind }, { signal })) {
      if (event.type === 'commit') tokens.push(...event.tokens);
      else if (event.type === 'done' && lane.kind === 'target') noteRollbacks(event.stats.rollbacks);
    }
    return tokens;
  };
}
