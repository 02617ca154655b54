import { type Backend, type BackendFactory, StetError } from '@stet/backend';
import type { LoadedModel } from '@stet/model';
import { type Drafter, Scheduler, type VerifyPolicy } from '@stet/scheduler';
import { BackendKeeper } from './backend-keeper.js';
import { CoreEngine, type StetEngine } from './engine.js';
import { checkSuccessor, engineInfo } from './engine-info.js';
import { type KvOptions, kvSize } from './kv-size.js';
import { type EngineLimits, resolveLimits } from './limits.js';
import { type LoadProgress, type ModelOption, type OpenModelOptions, openModel } from './open-model.js';
import { choosePolicy, type PolicyOption } from './policy.js';
import { createModelText } from './request/model-text.js';
import { weightsKey } from './weights-key.js';

export interface CreateEngineOptions extends OpenModelOptions {
  /**
   * A folder in Hugging Face layout, a `.gguf` file, or `tales`, the embedded model, which Node can open; or a model that
   * is loaded. The engine takes it over and closes it, also when creation fails.
   */
  readonly model: ModelOption;
  readonly backend: BackendFactory;
  /**
   * How deterministic requests get their tokens. No policy changes a bit. `auto`, the default, weighs both forwards
   * against each other: it times them before the first request, for 50 ms at most, unless the backend is slower than
   * that or has nothing to choose.
   */
  readonly policy?: PolicyOption;
  /** Guesses tokens, to be verified like any candidate, e.g. `promptLookup()`; none by default. Changes no bit. */
  readonly drafter?: Drafter;
  readonly kv?: KvOptions;
  /** `on` by default: prompts that begin alike share K/V. Changes no bit of a deterministic answer. */
  readonly prefixCache?: 'on' | 'off';
  readonly limits?: Partial<EngineLimits>;
  /**
   * What happens when the backend says that its device is gone. `recreate`, the default: a new one is made by the same
   * factory and requests go on, with the same tokens where they are deterministic; `maxRecreations` of the limits bounds
   * it. `fail`: they end with `STET_ERR_DEVICE_LOST`, and no more are taken.
   */
  readonly onDeviceLost?: 'recreate' | 'fail';
  /** Milliseconds, never going back; `performance.now` by default. */
  readonly clock?: () => number;
  /** What a chat template sees as today. */
  readonly date?: () => Date;
  /** Draws the seed of a request that has none: an integer in 0 .. 2^53 - 1; from the platform's entropy by default. */
  readonly randomSeed?: () => number;
  /** Called as files are read, where the model is given by its path, and then as weights are loaded, for the first time. */
  readonly onProgress?: (progress: LoadProgress) => void;
  /** Makes creation reject with `STET_ERR_ABORTED`. */
  readonly signal?: AbortSignal;
}

/**
 * Puts a model onto a backend, ready for requests. Rejects with a `StetError` of the model, the backend or an option;
 * then nothing is left open.
 *
 *     await using engine = await createEngine({ model: 'models/smollm2.gguf', backend: createCpuBackend });
 *     for await (const event of engine.generate({ prompt: 'Once upon a time', deterministic: true })) …
 */
export async function createEngine(options: CreateEngineOptions): Promise<StetEngine> {
  const { signal, onProgress } = options;
  const model = await openModel(options.model, options);
  let backend: Backend | undefined;
  try {
    const limits = resolveLimits(options.limits);
    const maxRecreations = recreationsOf(options.onDeviceLost, limits);
    const load = {
      plan: model.plan,
      weights: model.weights,
      weightsKey: weightsKey(model),
      ...kvSize(model.plan, options.kv),
      maxRows: limits.maxRows,
    };
    backend = await options.backend({
      ...load,
      ...(onProgress && { onProgress: (done, total) => onProgress({ phase: 'weights', done, total }) }),
      ...(signal && { signal }),
    });
    const { clock = () => performance.now() } = options;
    const policy = await choosePolicy(options.policy, backend, limits.maxRunning, { clock, ...(signal && { signal }) });
    const keeper = new BackendKeeper(backend, {
      create: (closing) => options.backend({ ...load, signal: closing }),
      check: (lost, made) => checkSuccessor(model, lost, made),
      maxRecreations,
      recreationWaitMs: limits.recreationWaitMs,
    });
    return assemble({ model, keeper, limits, policy, clock }, options);
  } catch (error) {
    await Promise.allSettled([backend?.close(), model.close()]);
    throw error;
  }
}

function recreationsOf(option: CreateEngineOptions['onDeviceLost'], { maxRecreations }: EngineLimits): number {
  switch (option) {
    case undefined:
    case 'recreate':
      return maxRecreations;
    case 'fail':
      return 0;
    default:
      return refuse(option);
  }
}

function refuse(option: never): never {
  throw new StetError('STET_ERR_BAD_REQUEST', `onDeviceLost is ${JSON.stringify(option)}: there are recreate and fail`);
}

interface Parts {
  readonly model: LoadedModel;
  readonly keeper: BackendKeeper;
  readonly limits: EngineLimits;
  readonly policy: VerifyPolicy;
  readonly clock: () => number;
}

function assemble({ model, keeper, limits, policy, clock }: Parts, options: CreateEngineOptions): StetEngine {
  const { date = () => new Date(), randomSeed = drawSeed, drafter } = options;
  const scheduler = new Scheduler({
    ...keeper.backend.info,
    policy,
    ...(drafter && { drafter }),
    limits: {
      maxWaiting: limits.maxWaiting,
      maxRunning: limits.maxRunning,
      fastBudget: limits.maxRows,
      canonicalBudget: Math.min(limits.maxCanonicalRows, limits.maxRows),
    },
    ...(options.prefixCache && { prefixCache: options.prefixCache }),
  });
  return new CoreEngine({
    keeper,
    describe: (info) => engineInfo(model, info, policy, drafter),
    scheduler,
    text: createModelText(model, date),
    limits,
    clock,
    drawSeed: randomSeed,
    release: () => model.close(),
  });
}

/** 53 bits of the platform's entropy. */
function drawSeed(): number {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high! & 0x1fffff) * 2 ** 32 + low!;
}
