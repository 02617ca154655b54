import { type AdjustedLogits, assert } from '@stet/backend';
import type { SamplingParams, TokenHistory } from '../request.js';

/** The logits that penalties and biases change. Answers depend on the arguments alone; the instance keeps scratch space. */
export class Adjuster {
  /** By token: its new logit, if `touchedBy` is the current round. */
  private readonly values: Float64Array;
  private readonly touchedBy: Int32Array;
  private round = 0;
  /** Tokens touched in this round. */
  private readonly ids: Int32Array;
  private count = 0;

  constructor(vocabSize: number) {
    this.values = new Float64Array(vocabSize);
    this.touchedBy = new Int32Array(vocabSize);
    this.ids = new Int32Array(vocabSize);
  }

  /**
   * Repetition penalty, then frequency and presence penalties, then bias; undefined where none is set. `logits`
   * (vocabSize); `history`: the tokens so far, needed when a penalty is set, of which the output's last ones,
   * `withheld`, do not count.
   */
  adjust(
    logits: Float32Array,
    params: SamplingParams,
    history: TokenHistory | undefined,
    withheld?: Int32Array,
  ): AdjustedLogits | undefined {
    const { frequencyPenalty, presencePenalty, repetitionPenalty, logitBias } = params;
    const hasPenalty = frequencyPenalty !== 0 || presencePenalty !== 0 || repetitionPenalty !== 1;
    if (!hasPenalty && logitBias.size === 0) return undefined;
    this.begin();
    if (hasPenalty) {
      assert(history !== undefined, 'penalties need the tokens so far');
      this.penalize(logits, params, history, withheld ? countsOf(withheld) : NONE);
    }
    for (const [id, bias] of logitBias) {
      this.touch(id, logits);
      this.values[id]! += bias;
    }
    const ids = this.ids.slice(0, this.count);
    return { ids, values: Float64Array.from(ids, (id) => this.values[id]!) };
  }

  private penalize(
    logits: Float32Array,
    { frequencyPenalty, presencePenalty, repetitionPenalty }: SamplingParams,
    { prompt, output }: TokenHistory,
    withheld: ReadonlyMap<number, number>,
  ): void {
    const timesOf = (id: number, times: number) => times - (withheld.get(id) ?? 0);
    if (repetitionPenalty !== 1) {
      for (const id of prompt) this.repeat(id, logits, repetitionPenalty);
      for (const [id, times] of output) if (timesOf(id, times) > 0) this.repeat(id, logits, repetitionPenalty);
    }
    for (const [id, counted] of output) {
      const times = timesOf(id, counted);
      if (times <= 0) continue;
      this.touch(id, logits);
      this.values[id]! -= frequencyPenalty * times + presencePenalty;
    }
  }

  private repeat(id: number, logits: Float32Array, penalty: number): void {
    if (this.touch(id, logits) === 'again') return;
    this.values[id]! *= this.values[id]! > 0 ? 1 / penalty : penalty;
  }

  /** Begins with the token's logit, the first time. */
  private touch(id: number, logits: Float32Array): 'first' | 'again' {
    if (this.touchedBy[id] === this.round) return 'again';
    this.touchedBy[id] = this.round;
    this.values[id] = logits[id]!;
    this.ids[this.count++] = id;
    return 'first';
  }

  private begin(): void {
    this.count = 0;
    this.round = (this.round + 1) | 0;
    if (this.round !== 0) return;
    // All rounds have been used once.
    this.touchedBy.fill(0);
    this.round = 1;
  }
}

const NONE: ReadonlyMap<number, number> = new Map();

function countsOf(tokens: Int32Array): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return counts;
}
