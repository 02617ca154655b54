/** What a contender does: it reads the prompts, all at once, and writes so many tokens to each. */
export interface Workload {
  readonly name: WorkloadName;
  /** Streams of token ids. */
  readonly prompts: readonly (readonly number[])[];
  readonly outputTokens: number;
}

export const workloadNames = ['prefill512', 'decode1', 'decode8', 'decode16'] as const;
export type WorkloadName = (typeof workloadNames)[number];

export const PREFILL_TOKENS = 512;
export const PROMPT_TOKENS = 32;

/**
 * The workloads over a text of at least {@link PREFILL_TOKENS} tokens: one prompt of 512 and no more than its next token; and 1, 8
 * and 16 prompts of 32, each from another place of the text.
 */
export function workloadsOf(text: readonly number[], outputTokens: number): Workload[] {
  if (text.length < PREFILL_TOKENS)
    throw new Error(
      `the text has ${text.length} tokens, ${PREFILL_TOKENS} are needed: the model's vocabulary is too coarse`,
    );
  return workloadNames.map((name): Workload => {
    switch (name) {
      case 'prefill512':
        return { name, prompts: [text.slice(0, PREFILL_TOKENS)], outputTokens: 1 };
      case 'decode1':
        return { name, prompts: prompts(text, 1), outputTokens };
      case 'decode8':
        return { name, prompts: prompts(text, 8), outputTokens };
      case 'decode16':
        return { name, prompts: prompts(text, 16), outputTokens };
      default:
        return name satisfies never;
    }
  });
}

function prompts(text: readonly number[], count: number): number[][] {
  const stride = Math.floor((text.length - PROMPT_TOKENS) / count);
  return Array.from({ length: count }, (_, s) => text.slice(s * stride, s * stride + PROMPT_TOKENS));
}
