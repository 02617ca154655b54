import {
  assertNever,
  type Backend,
  type BackendFactory,
  type BackendInfo,
  type CanonicalShape,
  NUMERICS_ID,
  StetError,
} from '@stet/backend';
import { fingerprint, type LoadedModel } from '@stet/model';
import { type Drafter, SAMPLER_VERSION, Scheduler, type VerifyPolicy } from '@stet/scheduler';
import type { EngineInfo } from './api.js';
import { CoreEngine, type StetEngine } from './engine.js';
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
  /** Milliseconds, never going back; `performance.now` by default. */
  readonly clock?: () => number;
  /** What a chat template sees as today. */
  readonly date?: () => Date;
  /** Draws the seed of a request that has none: an integer in 0 .. 2^53 - 1; from the platform's entropy by default. */
  readonly randomSeed?: () => number;
  /** Called as files are read, where the model is given by its path, and then as weights are loaded. */
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
    backend = await options.backend({
      plan: model.plan,
      weights: model.weights,
      weightsKey: weightsKey(model),
      ...kvSize(model.plan, options.kv),
      maxRows: limits.maxRows,
      ...(onProgress && { onProgress: (done, total) => onProgress({ phase: 'weights', done, total }) }),
      ...(signal && { signal }),
    });
    const { clock = () => performance.now() } = options;
    const policy = await choosePolicy(options.policy, backend, limits.maxRunning, { clock, ...(signal && { signal }) });
    return assemble({ model, backend, limits, policy, clock }, options);
  } catch (error) {
    await Promise.allSettled([backend?.close(), model.close()]);
    throw error;
  }
}

interface Parts {
  readonly model: LoadedModel;
  readonly backend: Backend;
  readonly limits: EngineLimits;
  readonly policy: VerifyPolicy;
  readonly clock: () => number;
}

function assemble({ model, backend, limits, policy, clock }: Parts, options: CreateEngineOptions): StetEngine {
  const { info } = backend;
  const { date = () => new Date(), randomSeed = drawSeed, drafter } = options;
  const scheduler = new Scheduler({
    ...info,
    policy,
    ...(drafter && { drafter }),
    limits: {
      maxWaiting: limits.maxWaiting,
      maxRunning: limits.maxRunning,
      fastBudget: limits.maxRows,
      canonicalBudget: limits.maxRows,
    },
    ...(options.prefixCache && { prefixCache: options.prefixCache }),
  });
  return new CoreEngine({
    info: engineInfo(model, info, policy, drafter),
    backend,
    scheduler,
    text: createModelText(model, date),
    limits,
    clock,
    drawSeed: randomSeed,
    release: () => model.close(),
  });
}

const GUARANTEES = { portable: 'portable', 'fixed-shape': 'same-build', none: 'seeded' } as const;

function engineInfo(
  model: LoadedModel,
  info: BackendInfo,
  policy: VerifyPolicy,
  drafter: Drafter | undefined,
): EngineInfo {
  return {
    model: model.name,
    backend: info.name,
    device: info.device,
    fingerprint: fingerprintOf(model, info),
    contextLength: info.contextLength,
    vocabSize: info.vocabSize,
    deterministic: info.canonical,
    guarantee: GUARANTEES[info.canonical],
    policy: policy.name,
    ...(drafter && { drafter: drafter.name }),
    memory: info.memory,
  };
}

/** The fingerprint that a model has on every backend of portable numerics. */
export function portableFingerprint(model: Pick<LoadedModel, 'digest' | 'plan'>): string {
  return fingerprint({ ...modelParts(model), numericsId: NUMERICS_ID });
}

function modelParts({ digest, plan }: Pick<LoadedModel, 'digest' | 'plan'>) {
  return { digest, plan, samplerVersion: SAMPLER_VERSION };
}

/** Portable numerics depend on nothing but the model; without them the backend, its device and its shape matter too. */
function fingerprintOf(model: LoadedModel, info: BackendInfo): string {
  const parts = modelParts(model);
  const place = { backend: info.name, device: info.device };
  switch (info.canonical) {
    case 'portable':
      if (info.numerics === null)
        throw new StetError(
          'STET_ERR_UNSUPPORTED',
          `the backend ${info.name} names no numerics for its canonical schedule`,
        );
      return fingerprint({ ...parts, numericsId: info.numerics });
    case 'fixed-shape': {
      const { sequenceCount, windowTokens } = shapeOf(info);
      return fingerprint({
        ...parts,
        numericsId: 'fixed-shape',
        extra: { ...place, shape: `${sequenceCount}x${windowTokens}` },
      });
    }
    case 'none':
      return fingerprint({ ...parts, numericsId: 'none', extra: place });
    default:
      return assertNever(info.canonical);
  }
}

function shapeOf(info: BackendInfo): CanonicalShape {
  if (info.canonicalShape) return info.canonicalShape;
  throw new StetError('STET_ERR_UNSUPPORTED', `the backend ${info.name} has a fixed shape and does not say which`);
}

/** 53 bits of the platform's entropy. */
function drawSeed(): number {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high! & 0x1fffff) * 2 ** 32 + low!;
}
