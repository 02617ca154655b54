/** What a contender does: it reads the prompts, all at once, and writes so many tokens to each. */
export interface Workload {
  readonly name: WorkloadName;
  /** What is measured: reading the prompts up to the next token of each, or writing. */
  readonly kind: 'prefill' | 'decode';
  /** Streams of token ids, of one length. */
  readonly prompts: readonly (readonly number[])[];
  readonly outputTokens: number;
}

interface Shape extends Pick<Workload, 'kind'> {
  readonly streams: number;
  readonly promptTokens: number;
}

const SHAPES = {
  prefill512: { kind: 'prefill', streams: 1, promptTokens: 512 },
  prefill1x128: { kind: 'prefill', streams: 1, promptTokens: 128 },
  prefill4x128: { kind: 'prefill', streams: 4, promptTokens: 128 },
  prefill16x128: { kind: 'prefill', streams: 16, promptTokens: 128 },
  decode1: { kind: 'decode', streams: 1, promptTokens: 32 },
  decode4: { kind: 'decode', streams: 4, promptTokens: 32 },
  decode8: { kind: 'decode', streams: 8, promptTokens: 32 },
  decode16: { kind: 'decode', streams: 16, promptTokens: 32 },
} as const satisfies Record<string, Shape>;

export type WorkloadName = keyof typeof SHAPES;
export const workloadNames = Object.keys(SHAPES) as readonly WorkloadName[];

/** Tokens that a text needs. */
export const TEXT_TOKENS = Math.max(...Object.values(SHAPES).map(({ promptTokens }) => promptTokens));

/**
 * The workloads over a text of at least {@link TEXT_TOKENS} tokens, each prompt from another place of it: 1, 4 and 16 prompts
 * of 128 tokens, and one of 512, up to the next token; and 1, 4, 8 and 16 prompts of 32 with `outputTokens` each.
 */
export function workloadsOf(text: readonly number[], outputTokens: number): Workload[] {
  if (text.length < TEXT_TOKENS)
    throw new Error(
      `the text has ${text.length} tokens, ${TEXT_TOKENS} are needed: the model's vocabulary is too coarse`,
    );
  return workloadNames.map((name) => {
    const { kind, streams, promptTokens } = SHAPES[name];
    return {
      name,
      kind,
      prompts: promptsOf(text, streams, promptTokens),
      outputTokens: kind === 'prefill' ? 1 : outputTokens,
    };
  });
}

function promptsOf(text: readonly number[], streams: number, promptTokens: number): number[][] {
  const stride = Math.floor((text.length - promptTokens) / streams);
  return Array.from({ length: streams }, (_, s) => text.slice(s * stride, s * stride + promptTokens));
}
