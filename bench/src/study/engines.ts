import type { Backend } from '@stet/backend';
import { createEngine, type PolicyOption, type StetEngine } from '@stet/engine';
import { loadModelPath } from '@stet/model/node';
import { dvr } from '@stet/scheduler';
import { type BackendSource, openBackends } from '../backends.js';
import { mismatching } from '../load/mismatching-backend.js';
import type { BackendSize, Closable, EngineSpec } from './context.js';
import type { Study } from './study.js';

/** The engines and backends of one study, one for each spec, over one device; and what else its scenarios keep open. */
export class Engines {
  readonly #study: Study;
  readonly #source: Promise<BackendSource>;
  readonly #open = new Map<string, Promise<Closable>>();

  constructor(study: Study) {
    this.#study = study;
    this.#source = openBackends(study);
    // Told by the first engine, or by nobody if there is none.
    this.#source.catch(() => {});
  }

  engine(spec: EngineSpec): Promise<StetEngine> {
    return this.keep(`engine ${JSON.stringify(spec)}`, () => this.#createEngine(spec));
  }

  backend(size: BackendSize): Promise<Backend> {
    return this.keep(`backend ${JSON.stringify(size)}`, () => this.#createBackend(size));
  }

  /** What `open` resolves to, which it is called for once. */
  keep<T extends Closable>(name: string, open: () => Promise<T>): Promise<T> {
    let one = this.#open.get(name) as Promise<T> | undefined;
    if (!one) {
      one = open();
      this.#open.set(name, one);
    }
    return one;
  }

  /** Closes all of them, the last first; the device stays open for others. */
  async closeAll(): Promise<void> {
    const settled = await Promise.allSettled(this.#open.values());
    this.#open.clear();
    for (const one of settled.reverse()) if (one.status === 'fulfilled') await one.value.close();
  }

  async close(): Promise<void> {
    await this.closeAll();
    const [source] = await Promise.allSettled([this.#source]);
    if (source.status === 'fulfilled') source.value.close();
  }

  async #createEngine({ policy, prefixCache = 'off', limits, kv, mismatchRate }: EngineSpec): Promise<StetEngine> {
    const { create } = await this.#source;
    return createEngine({
      model: this.#study.model,
      backend: mismatchRate === undefined ? create : mismatching(create, mismatchRate),
      policy: policyOption(policy),
      prefixCache,
      ...(limits && { limits }),
      ...(kv && { kv }),
    });
  }

  async #createBackend(size: BackendSize): Promise<Backend> {
    const { create } = await this.#source;
    const model = await loadModelPath(this.#study.model, { tokenizer: 'none' });
    try {
      return await create({ plan: model.plan, weights: model.weights, ...size });
    } finally {
      await model.close();
    }
  }
}

function policyOption(policy: EngineSpec['policy']): PolicyOption {
  return typeof policy === 'string' ? policy : dvr(policy.dvr);
}
