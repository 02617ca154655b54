import type { BackendLoad, Plan, WeightSource, WeightSpec } from '@stet/backend';

export interface FakeLoadOptions {
  /** Default 64; at least 2. */
  readonly vocabSize?: number;
  /** Default 256 positions. */
  readonly contextLength?: number;
  /** Default 16 positions. */
  readonly blockSize?: number;
  /** Default 64 blocks, block 0 included. */
  readonly blockCount?: number;
  /** Default 64 rows. */
  readonly maxRows?: number;
}

/** What a FakeBackend is loaded with: the smallest valid plan of the sizes asked for, with zero weights. */
export function fakeLoad(options: FakeLoadOptions = {}): BackendLoad {
  const { vocabSize = 64, contextLength = 256, blockSize = 16, blockCount = 64, maxRows = 64 } = options;
  return { plan: fakePlan(vocabSize, contextLength), weights: zeroWeights, blockSize, blockCount, maxRows };
}

function fakePlan(vocabSize: number, contextLength: number): Plan {
  return {
    architecture: 'fake',
    vocabSize,
    contextLength,
    layerCount: 1,
    kvHeadCount: 1,
    headSize: 2,
    buffers: [{ name: 'hidden', width: 2 }],
    weights: [
      { kind: 'matrix', name: 'embedding', rows: vocabSize, columns: 2, format: 'bf16' },
      { kind: 'vector', name: 'norm', size: 2, role: 'norm' },
    ],
    ropes: [],
    ops: [
      { kind: 'embed', table: 0, output: 0 },
      { kind: 'logits', input: 0, norm: 1, epsilon: 1e-5, weight: 0 },
    ],
  };
}

const zeroWeights: WeightSource = {
  async read(spec: WeightSpec) {
    if (spec.kind === 'vector') return { kind: 'vector', values: new Float32Array(spec.size) };
    return { kind: 'bf16', bits: new Uint16Array(spec.rows * spec.columns) };
  },
};
