/** How one set of logits differs from another over a text. */
export interface Divergence {
  /** Mean over the predicted tokens of KL(truth ‖ other), in nats. */
  readonly meanKl: number;
  /** Of the text under `other`. */
  readonly perplexity: number;
  /** Share of positions where both have the same likeliest token, 0 .. 1. */
  readonly top1: number;
}

/** `truth` and `other` (tokens.length × vocabSize): row r predicts tokens[r + 1], so the last row predicts nothing. */
export function compareLogits(
  truth: ArrayLike<number>,
  other: ArrayLike<number>,
  tokens: readonly number[],
  vocabSize: number,
): Divergence {
  let divergence = 0;
  let surprise = 0;
  let agreements = 0;
  const count = tokens.length - 1;
  for (let row = 0; row < count; row++) {
    const p = logSoftmax(truth, row * vocabSize, vocabSize);
    const q = logSoftmax(other, row * vocabSize, vocabSize);
    for (let id = 0; id < vocabSize; id++) divergence += Math.exp(p[id]!) * (p[id]! - q[id]!);
    surprise -= q[tokens[row + 1]!]!;
    if (best(p) === best(q)) agreements++;
  }
  return { meanKl: divergence / count, perplexity: Math.exp(surprise / count), top1: agreements / count };
}

/** Natural logarithms of the probabilities of logits[start .. start + size - 1]. */
export function logSoftmax(logits: ArrayLike<number>, start: number, size: number): Float64Array {
  const values = Float64Array.from({ length: size }, (_, id) => logits[start + id]!);
  const largest = values.reduce((a, b) => Math.max(a, b));
  const normalizer = largest + Math.log(values.reduce((sum, value) => sum + Math.exp(value - largest), 0));
  return values.map((value) => value - normalizer);
}

function best(values: Float64Array): number {
  return values.reduce((top, value, id) => (value > values[top]! ? id : top), 0);
}
