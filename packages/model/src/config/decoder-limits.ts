import { assertNever, StetError } from '@stet/backend';
import type { DecoderConfig } from './decoder-config.js';

/**
 * Upper limits of sizes that files give, checked before anything is sized by them. Columns of a matrix are at most
 * 32768, because the numerics are exact up to there; positions are below 2^20, because the rope series are.
 */
export const decoderLimits = {
  columns: 32768,
  vocabSize: 2 ** 21,
  layers: 1024,
  heads: 2048,
  headSize: 1024,
  contextLength: 2 ** 20,
} as const;

/** Smallest fl(width·epsilon) of the numerics' domain. */
const MIN_SCALED_EPSILON = 2 ** -60;

/**
 * Checks what no single field says: limits, heads that share, norms within the domain, ids within the vocabulary.
 * Throws `STET_ERR_BAD_CONFIG` that begins with the name of the file.
 */
export function checkDecoderConfig(config: DecoderConfig, file: string): void {
  const { hiddenSize, headCount, kvHeadCount, headSize, vocabSize } = config;
  const require = (holds: boolean, message: string): void => {
    if (!holds) throw new StetError('STET_ERR_BAD_CONFIG', `${file}: ${message}`);
  };
  const checkCount = (name: string, value: number, max: number): void =>
    require(Number.isInteger(value) && value >= 1 && value <= max, `${name} is ${value}, it must be 1 to ${max}`);
  checkCount('the vocabulary', vocabSize, decoderLimits.vocabSize);
  checkCount('the hidden size', hiddenSize, decoderLimits.columns);
  checkCount('the feed-forward size', config.intermediateSize, decoderLimits.columns);
  checkCount('the number of layers', config.layers.length, decoderLimits.layers);
  checkCount('the number of heads', headCount, decoderLimits.heads);
  checkCount('the number of key and value heads', kvHeadCount, decoderLimits.heads);
  checkCount('the context', config.contextLength, decoderLimits.contextLength);
  checkCount('head size', headSize, decoderLimits.headSize);
  require(headSize % 2 === 0, `head size ${headSize} must be even`);
  require(headCount % kvHeadCount === 0, `${headCount} heads cannot share ${kvHeadCount} key and value heads`);
  require(headCount * headSize <=
    decoderLimits.columns, `${headCount} heads of ${headSize} are more than ${decoderLimits.columns} columns`);
  for (const { windowSize } of config.layers)
    if (windowSize !== undefined) checkCount('a sliding window', windowSize, Number.MAX_SAFE_INTEGER);
  require(Math.fround(narrowestNorm(config) * config.normEpsilon) >= MIN_SCALED_EPSILON &&
    config.normEpsilon <= 1, `the epsilon of norms, ${config.normEpsilon}, is outside of what the numerics allow`);
  for (const id of config.eosIds) checkId('eos_token_id', id, vocabSize, file);
  if (config.bosId !== undefined) checkId('bos_token_id', config.bosId, vocabSize, file);
}

function narrowestNorm({ queryKeyNorms, hiddenSize, headSize, kvHeadCount }: DecoderConfig): number {
  switch (queryKeyNorms) {
    case 'none':
      return hiddenSize;
    case 'heads':
      return Math.min(hiddenSize, headSize);
    case 'whole':
      return Math.min(hiddenSize, kvHeadCount * headSize);
    default:
      return assertNever(queryKeyNorms);
  }
}

/** Throws `STET_ERR_BAD_CONFIG` for an id that the vocabulary does not have. */
export function checkId(field: string, id: number, vocabSize: number, file: string): void {
  if (id >= vocabSize) {
    throw new StetError('STET_ERR_BAD_CONFIG', `${file}: ${field} is ${id}, the vocabulary has ${vocabSize} ids`);
  }
}
