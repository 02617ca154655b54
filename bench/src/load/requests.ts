import type { GenerateRequest } from '@stet/engine';
import { seededUniform } from '../random.js';
import { readText, textNames } from '../texts.js';

export interface LoadRequest {
  /** Requests with equal keys are equal. */
  readonly key: string;
  readonly request: GenerateRequest & {
    readonly prompt: string;
    readonly maxTokens: number;
    readonly deterministic: boolean;
    readonly seed: number;
  };
}

/** Different deterministic requests: each comes again and again, and its answer must be the same every time. */
const VARIANTS = 16;
const PROMPT_CHARACTERS = { least: 40, most: 400 };
const OUTPUT_TOKENS = { least: 8, most: 128 };

/** Requests 0, 1, 2, … of a run, the same in every run. */
export class RequestMix {
  readonly #texts = textNames.map(readText);

  /** `deterministicShare`: 0 to 1. */
  constructor(private readonly deterministicShare: number) {}

  request(index: number): LoadRequest {
    const uniform = seededUniform(index);
    const deterministic = uniform() < this.deterministicShare;
    return deterministic ? this.variant(Math.floor(uniform() * VARIANTS)) : this.#make(`o${index}`, uniform, false);
  }

  /** One of the deterministic requests. */
  variant(index: number): LoadRequest {
    const variant = index % VARIANTS;
    return this.#make(`d${variant}`, seededUniform(1_000_003 + variant), true);
  }

  #make(key: string, uniform: () => number, deterministic: boolean): LoadRequest {
    const isSampled = uniform() < 0.5;
    return {
      key,
      request: {
        prompt: this.#prompt(uniform),
        maxTokens: between(OUTPUT_TOKENS, uniform()),
        seed: between({ least: 0, most: 1_000_000 }, uniform()),
        deterministic,
        // Every answer is then as long as it was asked to be.
        ignoreEos: true,
        // Said in full: OpenAI's API has another default.
        ...(isSampled ? { temperature: 0.8, topP: 0.95 } : { temperature: 0 }),
      },
    };
  }

  #prompt(uniform: () => number): string {
    const text = this.#texts[Math.floor(uniform() * this.#texts.length)]!;
    const length = between(PROMPT_CHARACTERS, uniform());
    const start = between({ least: 0, most: text.length - length }, uniform());
    return text.slice(start, start + length);
  }
}

function between({ least, most }: { readonly least: number; readonly most: number }, uniform: number): number {
  return least + Math.floor(uniform * (most - least + 1));
}
