import { assert, StetError } from '@stet/backend';
import { derivedSeed, seededNormal } from '../random.js';

/** What one request reads and writes, in tokens. */
export interface RequestLengths {
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/** What is asked, and how long the answer is to be. */
export interface PromptedRequest {
  readonly promptTokens: readonly number[];
  readonly outputTokens: number;
}

/** The natural logarithm is normally distributed around that of `median`. */
export interface LogNormal {
  readonly median: number;
  /** Standard deviation of the logarithm. */
  readonly sigma: number;
}

/** Lengths of a kind of traffic, as published; what does not fit the limits is drawn again, as benchmarks leave it out. */
export interface LengthDistribution {
  readonly title: string;
  readonly prompt: LogNormal;
  readonly output: LogNormal;
  readonly maxPromptTokens: number;
  /** Most tokens of a prompt and its answer. */
  readonly contextTokens: number;
}

/**
 * First turns of ShareGPT as vLLM's and SGLang's benchmarks take them from ShareGPT_V3_unfiltered_cleaned_split.json: a
 * prompt of at most 1024 tokens, and at most 2048 with its answer. The medians give, after these limits, the means of vLLM's
 * `benchmark_serving.py`, 217 and 198 tokens (217 393 and 197 767 of 1000 requests). The spreads are chosen: answers by the 136
 * first ones in LLM-42's own record of a ShareGPT run (median 145, mean 222, 90th percentile 573), prompts peaked at
 * short ones as in figure 11 of the vLLM paper (SOSP 2023).
 */
export const shareGptLengths: LengthDistribution = {
  title: 'ShareGPT-style',
  prompt: { median: 155, sigma: 1.25 },
  output: { median: 127, sigma: 1 },
  maxPromptTokens: 1024,
  contextTokens: 2048,
};

/**
 * arXiv summarization as in table 2 of Sarathi-Serve (OSDI 2024), of at most 16 384 tokens: prompts with a median of 7059
 * and a 90th percentile of 12 985, abstracts with 208 and 371. A sigma is ln(p90 / median) / 1.2816.
 */
export const arxivLengths: LengthDistribution = {
  title: 'arXiv-style',
  prompt: { median: 7059, sigma: 0.476 },
  output: { median: 208, sigma: 0.452 },
  maxPromptTokens: 16_384,
  contextTokens: 16_384,
};

export interface LengthScale {
  readonly prompt: number;
  readonly output: number;
}

/** SGLang's benchmark leaves out what is shorter. */
export const MIN_TOKENS = 4;
/** Below it no distribution keeps its shape. */
const MIN_CONTEXT = 64;
const MAX_DRAWS = 1000;

/**
 * How a distribution is made to fit a context: prompts by the ratio of the contexts, answers by its square root, since the
 * windows that they are verified in do not shrink with the context. Never stretched. Throws `STET_ERR_UNSUPPORTED` for a
 * context that is too short for any.
 */
export function scaleFor({ contextTokens }: LengthDistribution, contextLength: number): LengthScale {
  if (contextLength < MIN_CONTEXT) {
    throw new StetError(
      'STET_ERR_UNSUPPORTED',
      `a context of ${contextLength} tokens is too short for a workload: take a model with at least ${MIN_CONTEXT}`,
    );
  }
  const prompt = Math.min(1, contextLength / contextTokens);
  return { prompt, output: Math.sqrt(prompt) };
}

export interface LengthDraw {
  readonly count: number;
  readonly contextLength: number;
  readonly seed: number;
}

/** Seeded lengths that fit the context together. */
export function drawLengths(
  distribution: LengthDistribution,
  { count, contextLength, seed }: LengthDraw,
): RequestLengths[] {
  const scale = scaleFor(distribution, contextLength);
  const promptNormal = seededNormal(derivedSeed(seed, 0));
  const outputNormal = seededNormal(derivedSeed(seed, 1));
  const draw = (): RequestLengths | undefined => {
    const prompt = lengthOf(distribution.prompt, promptNormal());
    const output = lengthOf(distribution.output, outputNormal());
    if (Math.min(prompt, output) < MIN_TOKENS || prompt > distribution.maxPromptTokens) return undefined;
    if (prompt + output > distribution.contextTokens) return undefined;
    const promptTokens = Math.max(MIN_TOKENS, Math.round(prompt * scale.prompt));
    const outputTokens = Math.max(MIN_TOKENS, Math.round(output * scale.output));
    return promptTokens + outputTokens <= contextLength ? { promptTokens, outputTokens } : undefined;
  };
  const drawFitting = (): RequestLengths => {
    for (let i = 0; i < MAX_DRAWS; i++) {
      const lengths = draw();
      if (lengths) return lengths;
    }
    assert(false, `${MAX_DRAWS} draws of ${distribution.title} lengths did not fit ${contextLength} tokens`);
  };
  return Array.from({ length: count }, drawFitting);
}

function lengthOf({ median, sigma }: LogNormal, normal: number): number {
  return Math.round(median * Math.exp(sigma * normal));
}

/**
 * A point of the grid `in/out` on which everybody is equal: the paper's 1K/256 where the context has room, else a quarter
 * and an eighth of it.
 */
export function gridLengths(contextLength: number): RequestLengths {
  return {
    promptTokens: Math.max(MIN_TOKENS, Math.min(1024, Math.floor(contextLength / 4))),
    outputTokens: Math.max(MIN_TOKENS, Math.min(256, Math.floor(contextLength / 8))),
  };
}
