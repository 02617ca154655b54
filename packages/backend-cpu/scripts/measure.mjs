// Tokens per second of both schedules in one interleaved run, on a model of the shape of the embedded one with random
// weights: one decode row, 16 decode rows, a prefill of 512 rows. Needs a build.
//   node packages/backend-cpu/scripts/measure.mjs [--threads N] [--isa NAME] [--rounds N] [--format bf16|q8|q4] [--fast NAME]
import { parseArgs } from 'node:util';
import { encodeWeight } from '@stet/backend/numerics';
import { createCpuBackend } from '@stet/backend-cpu';

const { values: options } = parseArgs({
  options: {
    threads: { type: 'string', default: '2' },
    isa: { type: 'string', default: 'auto' },
    rounds: { type: 'string', default: '15' },
    format: { type: 'string', default: 'bf16' },
    context: { type: 'string', default: '128' },
    fast: { type: 'string', default: 'native' },
  },
});

const shape = { hidden: 256, layers: 6, heads: 4, kvHeads: 2, headSize: 64, feedForward: 704, vocab: 4096 };
const blockSize = 16;
const contextLength = 1024;
const contextTokens = Number(options.context);

const backend = await createCpuBackend({ threads: Number(options.threads), isa: options.isa, fast: options.fast })({
  plan: makePlan(options.format),
  weights: { read: async (spec) => encodeWeight(spec, randomValues(spec)) },
  blockSize,
  blockCount: 40 * (contextLength / blockSize) + 1,
  maxRows: 512,
});
console.log(
  `${backend.info.device}, ${options.format}, context of ${contextTokens}, median of ${options.rounds} rounds`,
);

const workloads = [
  { name: 'decode, 1 row', rows: 1, repeat: 20, batch: (base) => decodeBatch(1, base) },
  { name: 'decode, 16 rows', rows: 16, repeat: 8, batch: (base) => decodeBatch(16, base) },
  { name: 'prefill, 512 rows', rows: 512, repeat: 1, batch: (base) => prefillBatch(512, base) },
];
for (const workload of workloads) {
  const steps = {
    fast: { fast: workload.batch(0) },
    canonical: { canonical: workload.batch(20) },
    both: { fast: workload.batch(0), canonical: workload.batch(20) },
  };
  const times = { fast: [], canonical: [], both: [] };
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const [name, step] of Object.entries(steps)) {
      const start = performance.now();
      for (let i = 0; i < workload.repeat; i++) await backend.forward(step);
      times[name].push((performance.now() - start) / workload.repeat);
    }
  }
  const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
  const line = Object.entries(times).map(([name, list]) => {
    const ms = median(list);
    const tokens = workload.rows * (name === 'both' ? 2 : 1);
    return `${name} ${((tokens / ms) * 1000).toFixed(0)} tokens/s (${ms.toFixed(3)} ms, best ${Math.min(...list).toFixed(3)})`;
  });
  console.log(`${workload.name}: ${line.join(' · ')}`);
}
await backend.close();

function makePlan(format) {
  const { hidden, layers, heads, kvHeads, headSize, feedForward, vocab } = shape;
  const widths = {
    hidden,
    normed: hidden,
    query: heads * headSize,
    key: kvHeads * headSize,
    value: kvHeads * headSize,
  };
  Object.assign(widths, { attended: heads * headSize, projected: hidden, gate: feedForward, up: feedForward });
  const names = Object.keys(widths);
  const buffer = (name) => names.indexOf(name);
  const weights = [];
  const ops = [];
  const matrix = (name, rows, columns) => weights.push({ kind: 'matrix', name, rows, columns, format }) - 1;
  const norm = (name) => weights.push({ kind: 'vector', name, size: hidden, role: 'norm' }) - 1;
  const linear = (name, input, output) =>
    ops.push({
      kind: 'linear',
      input: buffer(input),
      weight: matrix(name, widths[output], widths[input]),
      output: buffer(output),
    });
  const rmsNorm = (name) =>
    ops.push({ kind: 'rmsNorm', input: 0, weight: norm(name), epsilon: 1e-5, output: buffer('normed') });
  const embedding = matrix('embedding', vocab, hidden);
  ops.push({ kind: 'embed', table: embedding, output: 0 });
  for (let layer = 0; layer < layers; layer++) {
    rmsNorm(`${layer}.attention.norm`);
    for (const name of ['query', 'key', 'value']) linear(`${layer}.${name}`, 'normed', name);
    ops.push({ kind: 'rope', buffer: buffer('query'), headCount: heads, rope: 0 });
    ops.push({ kind: 'rope', buffer: buffer('key'), headCount: kvHeads, rope: 0 });
    ops.push({ kind: 'kvWrite', layer, key: buffer('key'), value: buffer('value') });
    ops.push({ kind: 'attention', layer, query: buffer('query'), headCount: heads, output: buffer('attended') });
    linear(`${layer}.output`, 'attended', 'projected');
    ops.push({ kind: 'add', left: 0, right: buffer('projected'), output: 0 });
    rmsNorm(`${layer}.feedForward.norm`);
    linear(`${layer}.gate`, 'normed', 'gate');
    linear(`${layer}.up`, 'normed', 'up');
    ops.push({ kind: 'swiglu', gate: buffer('gate'), up: buffer('up'), output: buffer('gate') });
    linear(`${layer}.down`, 'gate', 'projected');
    ops.push({ kind: 'add', left: 0, right: buffer('projected'), output: 0 });
  }
  ops.push({ kind: 'logits', input: 0, norm: norm('norm'), epsilon: 1e-5, weight: embedding });
  const inverseFrequencies = Array.from({ length: headSize / 2 }, (_, i) => 10000 ** ((-2 * i) / headSize));
  return {
    architecture: 'llama',
    vocabSize: vocab,
    contextLength,
    layerCount: layers,
    kvHeadCount: kvHeads,
    headSize,
    buffers: Object.entries(widths).map(([name, width]) => ({ name, width })),
    weights,
    ropes: [{ inverseFrequencies, attentionFactor: 1 }],
    ops,
  };
}

function randomValues(spec) {
  if (spec.kind === 'vector') return new Float32Array(spec.size).fill(1);
  const scale = 1 / Math.sqrt(spec.columns);
  return Float32Array.from({ length: spec.rows * spec.columns }, () => (Math.random() - 0.5) * 2 * scale);
}

/** Sequence s has the blocks from base + s on, a full context each. */
function tableOf(sequence, tokens) {
  return Array.from(
    { length: Math.ceil(tokens / blockSize) },
    (_, i) => 1 + sequence * (contextLength / blockSize) + i,
  );
}

function decodeBatch(rows, base) {
  const tables = Array.from({ length: rows }, (_, s) => tableOf(base + s, contextTokens + 1));
  return {
    tokens: Int32Array.from({ length: rows }, (_, s) => 100 + s),
    positions: new Int32Array(rows).fill(contextTokens),
    rowStarts: Int32Array.from({ length: rows + 1 }, (_, s) => s),
    blockStarts: Int32Array.from({ length: rows }, (_, s) => s * tables[0].length),
    blocks: Int32Array.from(tables.flat()),
    outputRows: Int32Array.from({ length: rows }, (_, s) => s),
    outputKinds: new Uint8Array(rows),
  };
}

function prefillBatch(rows, base) {
  const table = tableOf(base, rows);
  return {
    tokens: Int32Array.from({ length: rows }, (_, r) => (r * 37) % shape.vocab),
    positions: Int32Array.from({ length: rows }, (_, r) => r),
    rowStarts: Int32Array.of(0, rows),
    blockStarts: Int32Array.of(0),
    blocks: Int32Array.from(table),
    outputRows: Int32Array.of(rows - 1),
    outputKinds: new Uint8Array(1),
  };
}
