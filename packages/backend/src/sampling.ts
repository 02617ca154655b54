/** Part of the fingerprint: raised when any sampled token could change. The definition is docs/SAMPLING.md. */
export const SAMPLER_VERSION = 'sampler-1';

/** What shapes the distribution that a token is drawn from. */
export interface DrawParams {
  /** 0 is greedy. */
  readonly temperature: number;
  /** Keep the k likeliest; 0 keeps all. */
  readonly topK: number;
  /** Keep the smallest set of likeliest tokens whose probability reaches p; 1 keeps all. */
  readonly topP: number;
  /** Keep tokens of at least p times the likeliest one's probability; 0 keeps all. */
  readonly minP: number;
}

/** A token to be drawn, with all that it depends on. */
export interface Draw {
  /** (vocabSize), the model's; not NaN, and the largest is finite. */
  readonly logits: Float32Array;
  /** Tokens whose logits penalties or biases change. */
  readonly adjusted?: AdjustedLogits;
  readonly params: DrawParams;
  /** 0 .. 2^53 - 1 */
  readonly seed: number;
  readonly outputIndex: number;
  /** Absent: no log-probabilities; n: the drawn token's and those of the n likeliest, 0 .. 20. */
  readonly topLogprobs?: number;
}

/** `values[i]` (count) stands for the logit of token `ids[i]` (count); no id stands there twice. */
export interface AdjustedLogits {
  readonly ids: Int32Array;
  readonly values: Float64Array;
}

export interface Drawn {
  readonly token: number;
  /** Where the draw asked for it. */
  readonly logprob?: TokenLogprob;
}

export interface TokenLogprob {
  readonly token: number;
  /** Natural logarithm of the raw model probability: before temperature, penalties and bias. */
  readonly logprob: number;
  /** The likeliest tokens, best first, lowest id first among equals; as many as asked for. */
  readonly top: readonly { readonly token: number; readonly logprob: number }[];
}

/** Steps 4 to 9 and the log-probabilities of docs/SAMPLING.md, bit for bit. */
export interface TokenSampler {
  /**
   * All draws of a step at once; one answer each, in their order. Changes nothing that it is given, and reads it until
   * it has answered. One call may be in flight, and none beside a forward of the same backend: a second throws
   * `STET_ERR_BACKEND_BUSY`. Throws or rejects with `STET_ERR_BACKEND_CLOSED`, `STET_ERR_OUT_OF_MEMORY`.
   */
  sample(draws: readonly Draw[]): readonly Drawn[] | Promise<readonly Drawn[]>;
}
