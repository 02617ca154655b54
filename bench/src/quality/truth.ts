import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { assert } from '@stet/backend';
import type { LoadedModel } from '@stet/model';
import { type Float64Model, float64Of } from '@stet/reference/float64';
import { cacheFolder } from '../folders.js';

/**
 * Logits of an f64 forward of a model's own values, as its files have them before any format rounds them:
 * (tokens.length × vocabSize) in f32, which is exact to 1e-7 and so to far less than any divergence here. They
 * are kept in bench/cache by the digest of the model and the tokens, for they take minutes where the model is not tiny.
 */
export class Truth {
  readonly #model: LoadedModel;
  readonly #log: (line: string) => void;
  #float64: Promise<Float64Model> | undefined;

  constructor(model: LoadedModel, log: (line: string) => void) {
    this.#model = model;
    this.#log = log;
  }

  async logits(name: string, tokens: readonly number[]): Promise<Float32Array> {
    const { digest, plan } = this.#model;
    const key = createHash('sha256')
      .update(JSON.stringify([FORWARD_VERSION, digest, plan.contextLength, tokens]))
      .digest('hex');
    const file = new URL(`f64-${key.slice(0, 32)}.f32`, cacheFolder);
    const count = tokens.length * plan.vocabSize;
    if (existsSync(file)) {
      const bytes = readFileSync(file);
      if (bytes.byteLength === 4 * count) return new Float32Array(bytes.buffer, bytes.byteOffset, count);
    }
    this.#log(`${name}: f64 forward of ${tokens.length} tokens`);
    this.#float64 ??= loadExact(this.#model);
    const logits = Float32Array.from((await this.#float64).logits(tokens));
    mkdirSync(cacheFolder, { recursive: true });
    const partial = new URL(`${file.href}.${process.pid}`);
    writeFileSync(partial, logits);
    renameSync(partial, file);
    return logits;
  }
}

/** Raised where the f64 forward itself changes. */
const FORWARD_VERSION = 1;

async function loadExact({ plan, exactValues, name }: LoadedModel): Promise<Float64Model> {
  assert(exactValues, `${name} was loaded from files`);
  const weights: Float32Array[] = [];
  for (const spec of plan.weights) weights.push(await exactValues(spec));
  return float64Of(plan, weights);
}
