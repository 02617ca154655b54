import type { Backend, Plan, WeightSource, WeightSpec } from '@stet/backend';
import { encodeWeight } from '@stet/backend/numerics';
import { createCpuBackend, type IsaName } from '@stet/backend-cpu';

const WIDTH = 32;

/** A CPU backend whose model is a vocabulary and next to nothing else: for what works on rows of logits alone. */
export function openVocabulary(vocabSize: number, isa: IsaName, threads: number): Promise<Backend> {
  const plan: Plan = {
    architecture: 'vocabulary',
    vocabSize,
    contextLength: 16,
    layerCount: 1,
    kvHeadCount: 1,
    headSize: WIDTH,
    buffers: [{ name: 'residual', width: WIDTH }],
    weights: [
      { kind: 'matrix', name: 'embedding', rows: vocabSize, columns: WIDTH, format: 'bf16' },
      { kind: 'vector', name: 'norm', size: WIDTH, role: 'norm' },
    ],
    ropes: [],
    ops: [
      { kind: 'embed', table: 0, output: 0 },
      { kind: 'logits', input: 0, norm: 1, epsilon: 1e-5, weight: 0 },
    ],
  };
  const weights: WeightSource = {
    read: async (spec) => encodeWeight(spec, new Float32Array(elementCount(spec)).fill(1)),
  };
  return createCpuBackend({ isa, threads, selfTest: false })({
    plan,
    weights,
    blockSize: 16,
    blockCount: 2,
    maxRows: 16,
  });
}

function elementCount(spec: WeightSpec): number {
  return spec.kind === 'matrix' ? spec.rows * spec.columns : spec.size;
}
