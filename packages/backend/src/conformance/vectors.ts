import { assert } from '../errors.js';
import type { OpCase, OpOutputs } from '../op-runner.js';
import type { Plan, WeightFormat } from '../plan.js';
import { NUMERICS_ID } from '../port.js';
import type { WeightSource } from '../weights.js';
import add from './vectors/add.json';
import attention from './vectors/attention.json';
import { decodeFloats } from './vectors/base64.js';
import embed from './vectors/embed.json';
import linear from './vectors/linear.json';
import model from './vectors/model.json';
import { modelCases } from './vectors/model-cases.js';
import { type OpCaseSpec, opCases } from './vectors/op-cases.js';
import rmsNorm from './vectors/rms-norm.json';
import rope from './vectors/rope.json';
import swiglu from './vectors/swiglu.json';

/** One operation with the bits that every canonical kernel gives. */
export interface OpVector {
  readonly name: string;
  /** Weight formats that it needs; empty where it has no matrix. */
  readonly formats: readonly WeightFormat[];
  readonly case: OpCase;
  readonly outputs: OpOutputs;
}

/** A whole model with the bits that every canonical schedule gives, in any chunking. */
export interface ModelVector {
  readonly name: string;
  readonly formats: readonly WeightFormat[];
  readonly plan: Plan;
  readonly weights: WeightSource;
  readonly blockSize: number;
  /** (tokenCount): one sequence from position 0. */
  readonly tokens: Int32Array;
  /** (rowCount), ascending: positions whose logits are given. */
  readonly rows: Int32Array;
  /** (rowCount × vocabSize) */
  readonly logits: Float32Array;
}

/** Which vectors to take; the default is all of them. */
export interface VectorSelection {
  /** `startup`: the short list that every start checks. */
  readonly subset?: 'startup' | 'full';
  /** Weight formats of the backend: vectors that need another one are left out. */
  readonly formats?: readonly WeightFormat[];
}

/** The content of a vector file; floats are base64 of little-endian f32. */
export interface VectorFile {
  readonly numerics: string;
  readonly outputs: Readonly<Record<string, string>>;
}

/** Golden vectors of single operations, in a fixed order. */
export function opVectors(selection: VectorSelection = {}): OpVector[] {
  return opCases()
    .filter((spec) => selects(selection, spec.formats) && (selection.subset !== 'startup' || spec.subset === 'startup'))
    .map((spec) => {
      const { name, formats } = spec;
      return { name, formats, case: spec.build(), outputs: { output: recorded(OP_FILES[spec.kind], name) } };
    });
}

/** Golden vectors of whole models. */
export function modelVectors(selection: Pick<VectorSelection, 'formats'> = {}): ModelVector[] {
  return modelCases()
    .filter((spec) => selects(selection, spec.formats))
    .map((spec) => ({ ...spec, logits: recorded(model, spec.name) }));
}

const OP_FILES: Readonly<Record<OpCaseSpec['kind'], VectorFile>> = {
  add,
  attention,
  embed,
  linear,
  rmsNorm,
  rope,
  swiglu,
};

function selects(selection: VectorSelection, formats: readonly WeightFormat[]): boolean {
  return formats.every((format) => selection.formats?.includes(format) ?? true);
}

function recorded(file: VectorFile, name: string): Float32Array {
  assert(file.numerics === NUMERICS_ID, `the vectors are of ${file.numerics}, the numerics of ${NUMERICS_ID}`);
  const text = file.outputs[name];
  assert(text !== undefined, `there is no vector ${name}: run npm run vectors`);
  return decodeFloats(text);
}
