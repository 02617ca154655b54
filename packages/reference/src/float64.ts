import { assert, assertNever, checkPlan, checkWeightData, type Op, type Plan, type WeightSource } from '@stet/backend';
import { dequantize } from './dequantize.js';
import { linear64 } from './float64-linear.js';
import { attention64, rmsNorm64, rope64, swiglu64 } from './float64-ops.js';

export { type Attention64, attention64, rmsNorm64, rope64, swiglu64 } from './float64-ops.js';

/**
 * The yardstick of accuracy: a plan in plain f64, with the weights as they are stored (`bf16` values, q·scale), no
 * rounding of activations or K/V, and ordinary exp, sine and cosine. Not bit-exact across engines, and not meant to be.
 */
export interface Float64Model {
  /** Logits of every row of one sequence from position 0: (tokenCount × vocabSize). */
  logits(tokens: ArrayLike<number>): Float64Array;
}

/** Rejects with `STET_ERR_BAD_PLAN`, `STET_ERR_BAD_WEIGHTS`, or what the weight source rejects with. */
export async function loadFloat64(plan: Plan, source: WeightSource): Promise<Float64Model> {
  checkPlan(plan);
  const weights: Float32Array[] = [];
  for (const spec of plan.weights) {
    const data = await source.read(spec);
    checkWeightData(spec, data);
    weights.push(dequantize(spec, data));
  }
  return float64Of(plan, weights);
}

/** The same of values in f32, by `WeightId`, which may be those of a file before any format rounded them. */
export function float64Of(plan: Plan, weights: readonly Float32Array[]): Float64Model {
  checkPlan(plan);
  plan.weights.forEach((spec, id) => {
    const size = spec.kind === 'matrix' ? spec.rows * spec.columns : spec.size;
    assert(weights[id]?.length === size, `${spec.name} has ${size} values`);
  });
  return { logits: (tokens) => forward(plan, weights, tokens) };
}

interface Layer64 {
  key: Float64Array;
  value: Float64Array;
}

interface State {
  readonly plan: Plan;
  /** By `WeightId`; every stored weight is exact in f32. */
  readonly weights: readonly Float32Array[];
  readonly tokens: ArrayLike<number>;
  /** By `BufferId`: (tokenCount × width). */
  readonly buffers: Float64Array[];
  readonly layers: Layer64[];
}

function forward(plan: Plan, weights: readonly Float32Array[], tokens: ArrayLike<number>): Float64Array {
  assert(tokens.length <= plan.contextLength, 'the tokens fit the context');
  const state: State = {
    plan,
    weights,
    tokens,
    buffers: plan.buffers.map((buffer) => new Float64Array(tokens.length * buffer.width)),
    layers: Array.from({ length: plan.layerCount }, () => ({ key: new Float64Array(0), value: new Float64Array(0) })),
  };
  for (const op of plan.ops) {
    if (op.kind === 'logits') return logits(state, op);
    runOp64(state, op);
  }
  assert(false, 'a checked plan ends with logits');
}

function runOp64(state: State, op: Exclude<Op, { kind: 'logits' }>): void {
  const { plan, weights, buffers, tokens, layers } = state;
  switch (op.kind) {
    case 'embed': {
      const { width } = plan.buffers[op.output];
      for (let row = 0; row < tokens.length; row++) {
        const start = tokens[row] * width;
        buffers[op.output].set(weights[op.table].subarray(start, start + width), row * width);
      }
      return;
    }
    case 'rmsNorm':
      buffers[op.output] = rmsNorm64(buffers[op.input], weights[op.weight], op.epsilon);
      return;
    case 'linear':
      buffers[op.output] = linear(state, op.weight, op.bias, buffers[op.input]);
      return;
    case 'rope':
      rope64(buffers[op.buffer], op.headCount, plan.ropes[op.rope]);
      return;
    case 'kvWrite':
      layers[op.layer] = { key: buffers[op.key].slice(), value: buffers[op.value].slice() };
      return;
    case 'attention':
      buffers[op.output] = attention64({
        ...layers[op.layer],
        query: buffers[op.query],
        headCount: op.headCount,
        kvHeadCount: plan.kvHeadCount,
        headSize: plan.headSize,
        windowSize: op.windowSize,
      });
      return;
    case 'swiglu':
      buffers[op.output] = swiglu64(buffers[op.gate], buffers[op.up]);
      return;
    case 'add':
      buffers[op.output] = buffers[op.left].map((x, i) => x + buffers[op.right][i]);
      return;
    default:
      assertNever(op);
  }
}

function logits(state: State, op: Op & { kind: 'logits' }): Float64Array {
  const normed = rmsNorm64(state.buffers[op.input], state.weights[op.norm], op.epsilon);
  return linear(state, op.weight, op.bias, normed);
}

function linear(state: State, weight: number, bias: number | undefined, input: Float64Array): Float64Array {
  const spec = state.plan.weights[weight];
  assert(spec.kind === 'matrix', 'a linear has a matrix');
  return linear64(state.weights[weight], spec.columns, input, bias === undefined ? undefined : state.weights[bias]);
}
