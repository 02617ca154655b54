import type { BufferSpec, Op, Plan, WeightFormat, WeightSource, WeightSpec } from '@stet/backend';
import { encodeWeight } from '@stet/backend/numerics';
import { seededNormal } from '../random.js';
import type { LinearGroup } from './groups.js';

/** Tokens of a probe, which has next to no embedding and no head. */
export const PROBE_VOCAB = 32;

/**
 * A plan that runs a group of linears `copies` times, each with weights of its own, in stages as in a model: an embedding of the input
 * stands where a model has its norm. With no copies it is what a step costs without the linears.
 */
export function linearProbe(model: Plan, group: LinearGroup, format: WeightFormat, copies: number): Plan {
  const input = 0;
  const buffers: BufferSpec[] = [
    { name: 'input', width: group.columns },
    ...group.rows.map((width, i) => ({ name: `output ${i}`, width })),
  ];
  const weights: WeightSpec[] = tinyModel(group.columns);
  const ops: Op[] = [embedInto(input)];
  for (let copy = 0; copy < copies; copy++) {
    if (copy > 0) ops.push(embedInto(input));
    for (const [i, rows] of group.rows.entries()) {
      const weight = weights.push({ kind: 'matrix', name: `${copy}.${i}`, rows, columns: group.columns, format }) - 1;
      ops.push({ kind: 'linear', input, weight, output: 1 + i });
    }
  }
  ops.push(tinyLogits(input));
  return { ...probeShape(model), layerCount: 1, ropes: [], buffers, weights, ops };
}

/** A plan of the model's attention alone: K/V written and read in every layer that the model has. */
export function attentionProbe(model: Plan, headCount: number, part: 'all' | 'without attention'): Plan {
  const { kvHeadCount, headSize, layerCount } = model;
  const [query, key, output] = [0, 1, 2];
  const buffers = [
    { name: 'query', width: headCount * headSize },
    { name: 'key', width: kvHeadCount * headSize },
    { name: 'output', width: headCount * headSize },
  ];
  const weights: WeightSpec[] = [
    ...tinyModel(headCount * headSize),
    { kind: 'matrix', name: 'keys', rows: PROBE_VOCAB, columns: kvHeadCount * headSize, format: 'bf16' },
  ];
  const ops: Op[] = [embedInto(query), { kind: 'embed', table: weights.length - 1, output: key }];
  for (let layer = 0; layer < layerCount; layer++) {
    ops.push({ kind: 'kvWrite', layer, key, value: key });
    if (part === 'without attention') continue;
    ops.push({ kind: 'attention', layer, query, headCount, output });
    // The next layer waits for this one, as in a model.
    ops.push({ kind: 'add', left: output, right: output, output: query }, embedInto(query));
  }
  ops.push(tinyLogits(query));
  return { ...probeShape(model), layerCount, ropes: [], buffers, weights, ops };
}

/** Normal weights, equal for equal shapes, so that each is made once. */
export function probeWeights(): WeightSource {
  const made = new Map<string, Promise<Float32Array>>();
  const values = async (size: number): Promise<Float32Array> => {
    const normal = seededNormal(size);
    const some = Float32Array.from({ length: Math.min(size, 65536) }, () => normal() / 16);
    return Float32Array.from({ length: size }, (_, i) => some[i % some.length]!);
  };
  return {
    read: async (spec) => {
      if (spec.kind === 'vector') return { kind: 'vector', values: new Float32Array(spec.size).fill(1) };
      const key = `${spec.rows} ${spec.columns}`;
      const found = made.get(key) ?? values(spec.rows * spec.columns);
      made.set(key, found);
      return encodeWeight(spec, await found);
    },
  };
}

function probeShape({ architecture, contextLength, kvHeadCount, headSize }: Plan) {
  return { architecture, vocabSize: PROBE_VOCAB, contextLength, kvHeadCount, headSize };
}

/** Embedding and head of a few tokens, and a norm: weights 0, 0 and 1. */
function tinyModel(width: number): WeightSpec[] {
  return [
    { kind: 'matrix', name: 'embedding', rows: PROBE_VOCAB, columns: width, format: 'bf16' },
    { kind: 'vector', name: 'norm', size: width, role: 'norm' },
  ];
}

function embedInto(output: number): Op {
  return { kind: 'embed', table: 0, output };
}

function tinyLogits(input: number): Op {
  return { kind: 'logits', input, norm: 1, epsilon: 1e-5, weight: 0 };
}
