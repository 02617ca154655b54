import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

/** A model with the answers of a reference implementation. */
export interface GoldenModel {
  readonly name: string;
  /** For `loadModelPath`. */
  readonly path: string;
  readonly reference: string;
  readonly cases: readonly GoldenCase[];
  /**
   * Of the rope's frequencies in the recorded forward: models that were cast to bf16 as a whole had theirs rounded too.
   * (A checkpoint is loaded with exact ones, by its reference as well.)
   */
  readonly ropeFrequencies: 'exact' | 'rounded to bf16';
}

export interface GoldenCase {
  readonly promptIds: readonly number[];
  readonly outputIds: readonly number[];
  /** By output: first less second, in logits or log-probabilities, which is the same. */
  readonly gaps: readonly number[];
  readonly checks: readonly GoldenCheck[];
}

/** Recorded values of some tokens at one position of prompt and output. */
export interface GoldenCheck {
  readonly position: number;
  readonly scale: 'logits' | 'log-probabilities';
  readonly values: readonly (readonly [id: number, value: number])[];
}

interface LogitsCase {
  readonly promptIds: number[];
  readonly lastLogits: number[];
  readonly positions: { readonly position: number; readonly top5: [number, number][] }[];
  readonly greedyIds: number[];
  readonly gaps: number[];
}

interface LogprobsCase {
  readonly promptIds: number[];
  readonly outputIds: number[];
  readonly gaps: number[];
  readonly top5Logprobs: [number, number][][];
}

/** All models below a folder that have a golden.json beside them and are more than a tokenizer. */
export function goldenModels(folder: string): GoldenModel[] {
  const names = readdirSync(folder).sort();
  const inside = names.flatMap((name) => {
    const path = join(folder, name);
    return readable(path) ? goldenModels(path) : [];
  });
  if (!names.includes('golden.json')) return inside;
  const golden = JSON.parse(readFileSync(join(folder, 'golden.json'), 'utf8'));
  const gguf = names.find((name) => name.endsWith('.gguf'));
  const first = golden.cases?.[0] ?? {};
  if (gguf !== undefined && first.top5Logprobs) return [...inside, fromLogprobs(join(folder, gguf), golden)];
  if (existsSync(join(folder, 'config.json')) && first.lastLogits) return [...inside, fromLogits(folder, golden)];
  return inside;
}

function readable(path: string): boolean {
  try {
    readdirSync(path);
    return true;
  } catch {
    return false;
  }
}

function fromLogits(path: string, golden: { reference: string; cases: LogitsCase[] }): GoldenModel {
  return {
    name: basename(path),
    path,
    reference: golden.reference,
    ropeFrequencies: 'rounded to bf16',
    cases: golden.cases.map(({ promptIds, lastLogits, positions, greedyIds, gaps }) => ({
      promptIds,
      outputIds: greedyIds,
      gaps,
      checks: [
        {
          position: promptIds.length - 1,
          scale: 'logits',
          values: lastLogits.map((value, id): [number, number] => [id, value]),
        },
        ...positions.map(({ position, top5 }) => ({ position, scale: 'logits' as const, values: top5 })),
      ],
    })),
  };
}

function fromLogprobs(path: string, golden: { forward: string; cases: LogprobsCase[] }): GoldenModel {
  return {
    name: basename(path, '.gguf'),
    path,
    reference: golden.forward,
    ropeFrequencies: 'exact',
    cases: golden.cases.map(({ promptIds, outputIds, gaps, top5Logprobs }) => ({
      promptIds,
      outputIds,
      gaps,
      checks: top5Logprobs.map((values, step) => ({
        position: promptIds.length - 1 + step,
        scale: 'log-probabilities',
        values,
      })),
    })),
  };
}
