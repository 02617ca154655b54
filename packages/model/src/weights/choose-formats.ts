import type { Plan, WeightFormat } from '@stet/backend';
import type { StoredTensor, WeightPlaces } from './stored-tensor.js';

/** `auto`: for each matrix what suits the tensor that it is stored as. */
export type FormatOption = 'auto' | WeightFormat;

/** Of a model that is loaded without saying one. */
export const DEFAULT_FORMAT: FormatOption = 'auto';

/** Matrices of a plan that have a format for the same reason. */
export interface FormatUse {
  readonly format: WeightFormat;
  readonly matrixCount: number;
  /** For people, e.g. `Q4_1 keeps its integers`. */
  readonly why: string;
}

/** The format of each matrix of a checkpoint, and the reason. */
export interface FormatChooser {
  /** By the weight's name in the plan. */
  formatOf(weight: string): WeightFormat;
  /** Of the plan that was built with it; what most matrices have comes first. */
  uses(plan: Plan): FormatUse[];
}

interface Choice {
  readonly format: WeightFormat;
  readonly why: string;
}

/**
 * An explicit format goes for all matrices. `auto` keeps what is there as far as a format can: tensors of four-bit
 * integers become `q4` with these very integers, other quantized ones `q8`; floats become `bf16`, but `q8` where other
 * tensors of the checkpoint are quantized, for there they are not meant to be the most of its bytes.
 */
export function chooseFormats(
  option: FormatOption,
  tensors: ReadonlyMap<string, StoredTensor>,
  places: WeightPlaces,
): FormatChooser {
  const isQuantized = [...tensors.values()].some(isBlockwise);
  const choose = (weight: string): Choice => {
    // A tensor that is not there is an error elsewhere.
    const tensor = tensors.get(places(weight).tensor);
    if (option !== 'auto') return { format: option, why: askedFor(option, tensor) };
    return tensor ? suiting(tensor, isQuantized) : { format: 'bf16', why: 'the tensor is missing' };
  };
  return {
    formatOf: (weight) => choose(weight).format,
    uses: (plan) => {
      const uses = new Map<string, FormatUse>();
      for (const spec of plan.weights) {
        if (spec.kind !== 'matrix') continue;
        const { why } = choose(spec.name);
        const key = `${spec.format} ${why}`;
        uses.set(key, { format: spec.format, matrixCount: (uses.get(key)?.matrixCount ?? 0) + 1, why });
      }
      return [...uses.values()].sort((a, b) => b.matrixCount - a.matrixCount);
    },
  };
}

function suiting({ type }: StoredTensor, isQuantized: boolean): Choice {
  if (type.splitQ4) return { format: 'q4', why: `${type.name} keeps its integers` };
  if (type.blockValues > 1) return { format: 'q8', why: `${type.name} is rounded to eight bits` };
  if (isQuantized) return { format: 'q8', why: `${type.name} among quantized tensors` };
  return { format: 'bf16', why: type.name === 'BF16' ? 'BF16 as it is' : `${type.name} is rounded to bf16` };
}

function askedFor(format: WeightFormat, tensor: StoredTensor | undefined): string {
  const keeps = format === 'q4' && tensor?.type.splitQ4;
  return keeps ? `asked for; ${tensor.type.name} keeps its integers` : 'asked for';
}

function isBlockwise({ type }: StoredTensor): boolean {
  return type.blockValues > 1;
}
