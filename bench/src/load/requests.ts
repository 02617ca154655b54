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

const PROMPT_CHARACTERS = { least: 40, most: 400 };
const OUTPUT_TOKENS = { least: 8, most: 128 };

/**
 * Requests 0, 1, 2, … of a run, the same in every run. A deterministic request comes again after `period` requests, when the
 * prefix cache has long forgotten it: its answer must be the same, and to compute it takes as long as the first time.
 */
export class RequestMix {
  readonly #texts = textNames.map(readText);

  /** `deterministicShare`: 0 to 1. */
  constructor(
    private readonly deterministicShare: number,
    private readonly period: number,
  ) {}

  request(index: number): LoadRequest {
    const place = index % this.period;
    const uniform = seededUniform(place);
    const deterministic = uniform() < this.deterministicShare;
    if (deterministic) return this.#make(`deterministic ${place}`, uniform, true);
    return this.#make(`ordinary ${index}`, seededUniform(1_000_003 + index), false);
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
