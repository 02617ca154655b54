export { decodeFloats, encodeFloats } from '../conformance/vectors/base64.js';
export { type ModelCaseSpec, modelCases } from '../conformance/vectors/model-cases.js';
export { type OpCaseSpec, opCases } from '../conformance/vectors/op-cases.js';
export {
  type ModelVector,
  modelVectors,
  type OpVector,
  opVectors,
  type VectorSelection,
} from '../conformance/vectors.js';
export * from './report.js';
export * from './self-test-model.js';
export * from './self-test-ops.js';
