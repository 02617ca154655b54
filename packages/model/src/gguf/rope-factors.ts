import type { FileSource } from '../files/source.js';
import { badGguf } from './gguf-error.js';
import type { GgufTensors } from './split/open-gguf.js';

const NAME = 'rope_freqs.weight';
/** One for each pair of a head. */
const MAX_FACTORS = 512;

/** The name of the tensor that {@link readRopeFactors} reads. */
export const ROPE_FACTORS_TENSOR = NAME;

/** Tensors of factors that change with the length of the text (rope type `longrope`); they are not supported. */
export const LONG_ROPE_TENSORS = ['rope_factors_long.weight', 'rope_factors_short.weight'] as const;

/** What each rotary frequency is divided by, undefined where the file has no such tensor. Rejects with `STET_ERR_BAD_GGUF`. */
export async function readRopeFactors(source: FileSource, tensors: GgufTensors): Promise<number[] | undefined> {
  const tensor = tensors.get(NAME);
  if (!tensor) return undefined;
  const { file, type, shape } = tensor;
  const length = shape[0] ?? 0;
  if (shape.length !== 1 || length < 1 || length > MAX_FACTORS || type.name !== 'F32') {
    badGguf(file, `has a tensor ${NAME} that is not a vector of up to ${MAX_FACTORS} F32`);
  }
  const values = new Float32Array(length);
  type.decode!(await source.read(file, tensor.start, tensor.end), values);
  const factors = Array.from(values);
  if (!factors.every((factor) => factor > 0 && factor < Number.POSITIVE_INFINITY)) {
    badGguf(file, `has a factor in ${NAME} that is not above zero`);
  }
  return factors;
}
