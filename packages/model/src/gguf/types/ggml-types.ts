import { floatTypes } from '../../weights/float-types.js';
import type { TensorType } from '../../weights/stored-tensor.js';
import { Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 } from './blocks-of-32.js';
import { Q2_K, Q3_K, Q4_K, Q5_K, Q6_K } from './blocks-of-256.js';
import { IQ4_NL, IQ4_XS, MXFP4 } from './table-blocks.js';

/** A tensor type of ggml. */
export type GgmlType = TensorType;

/** A number that meant a type in earlier versions of ggml; its files are not readable any more. */
export interface RemovedType {
  readonly name: string;
  readonly removed: true;
}

/** The type with a number in GGUF files, undefined where ggml has none. A type without `decode` is known by name only. */
export function ggmlType(number: number): GgmlType | RemovedType | undefined {
  return ggmlTypes.get(number);
}

/** Names of the types that can be weights. */
export function supportedTypes(): string[] {
  return [...ggmlTypes.values()].filter((type) => 'decode' in type).map((type) => type.name);
}

const ggmlTypes: ReadonlyMap<number, GgmlType | RemovedType> = new Map<number, GgmlType | RemovedType>([
  [0, floatTypes.F32],
  [1, floatTypes.F16],
  [2, Q4_0],
  [3, Q4_1],
  [4, removed('Q4_2')],
  [5, removed('Q4_3')],
  [6, Q5_0],
  [7, Q5_1],
  [8, Q8_0],
  [9, unsupported('Q8_1', 32, 36)],
  [10, Q2_K],
  [11, Q3_K],
  [12, Q4_K],
  [13, Q5_K],
  [14, Q6_K],
  [15, unsupported('Q8_K', 256, 292)],
  [16, unsupported('IQ2_XXS', 256, 66)],
  [17, unsupported('IQ2_XS', 256, 74)],
  [18, unsupported('IQ3_XXS', 256, 98)],
  [19, unsupported('IQ1_S', 256, 50)],
  [20, IQ4_NL],
  [21, unsupported('IQ3_S', 256, 110)],
  [22, unsupported('IQ2_S', 256, 82)],
  [23, IQ4_XS],
  [24, unsupported('I8', 1, 1)],
  [25, unsupported('I16', 1, 2)],
  [26, unsupported('I32', 1, 4)],
  [27, unsupported('I64', 1, 8)],
  [28, unsupported('F64', 1, 8)],
  [29, unsupported('IQ1_M', 256, 56)],
  [30, floatTypes.BF16],
  [31, removed('Q4_0_4_4')],
  [32, removed('Q4_0_4_8')],
  [33, removed('Q4_0_8_8')],
  [34, unsupported('TQ1_0', 256, 54)],
  [35, unsupported('TQ2_0', 256, 66)],
  [36, removed('IQ4_NL_4_4')],
  [37, removed('IQ4_NL_4_8')],
  [38, removed('IQ4_NL_8_8')],
  [39, MXFP4],
  [40, unsupported('NVFP4', 64, 36)],
  [41, unsupported('Q1_0', 128, 18)],
  [42, unsupported('Q2_0', 64, 18)],
]);

function unsupported(name: string, blockValues: number, blockBytes: number): GgmlType {
  return { name, blockValues, blockBytes };
}

function removed(name: string): RemovedType {
  return { name, removed: true };
}
