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

/** Over several texts, each with so many predicted tokens, which count alike. */
export function overTexts(
  parts: readonly { readonly divergence: Divergence; readonly predicted: number }[],
): Divergence {
  const total = parts.reduce((sum, { predicted }) => sum + predicted, 0);
  const mean = (value: (divergence: Divergence) => number): number =>
    parts.reduce((sum, { divergence, predicted }) => sum + value(divergence) * predicted, 0) / total;
  return {
    meanKl: mean(({ meanKl }) => meanKl),
    perplexity: Math.exp(mean(({ perplexity }) => Math.log(perplexity))),
    top1: mean(({ top1 }) => top1),
  };
}

/** Natural logarithms of the probabilities of logits[start .. start + size - 1]. */
export function logSoftmax(logits: ArrayLike<number>, start: number, size: number): Float64Array {
  const values = new Float64Array(size);
  let largest = Number.NEGATIVE_INFINITY;
  for (let id = 0; id < size; id++) {
    values[id] = logits[start + id]!;
    largest = Math.max(largest, values[id]!);
  }
  let sum = 0;
  for (let id = 0; id < size; id++) sum += Math.exp(values[id]! - largest);
  const normalizer = largest + Math.log(sum);
  for (let id = 0; id < size; id++) values[id]! -= normalizer;
  return values;
}

function best(values: Float64Array): number {
  let top = 0;
  for (let id = 1; id < values.length; id++) if (values[id]! > values[top]!) top = id;
  return top;
}
