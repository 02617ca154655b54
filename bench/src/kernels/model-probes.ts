import type { Plan, WeightFormat } from '@stet/backend';
import { kvBytesPerPosition, memoryNeeded } from '@stet/model';
import { type LinearGroup, linearGroups, type MatrixSpec } from '../roofline/groups.js';
import { PlanBuilder } from './plan-builder.js';
import {
  BLOCK_SIZE,
  fillBatches,
  type KernelProbe,
  type KernelWork,
  manySequences,
  oneSequence,
  type ProbePart,
  withAllOutputs,
} from './probe.js';

/** Times that a plan has an operation, at most: what else a step costs is next to nothing then. */
const MAX_COPIES = 64;
/** Weights of all copies of a linear together, at most. */
const MAX_WEIGHT_BYTES = 128 * 2 ** 20;
const F32 = 4;

export interface ProbeSelection {
  readonly formats: readonly WeightFormat[];
  /** Of attention, in positions. */
  readonly contexts: readonly number[];
}

/** Every kind of operation that a model has, at its sizes: its linears by format and shape, attention by context. */
export function modelProbes(plan: Plan, { formats, contexts }: ProbeSelection): KernelProbe[] {
  const sizes = sizesOf(plan);
  const groups = linearGroups(plan).filter(({ name }) => name !== 'head');
  return [
    embedProbe(plan, sizes),
    rmsNormProbe(plan, sizes),
    ropeProbe(plan, sizes),
    kvWriteProbe(plan),
    swigluProbe(plan, sizes),
    addProbe(plan, sizes),
    ...contexts.flatMap((context) => [
      attentionProbe(plan, sizes, context, 'one sequence'),
      attentionProbe(plan, sizes, context, 'sequences of 1 row'),
    ]),
    ...formats.flatMap((format) => groups.map((group) => linearProbe(plan, group, format))),
    ...formats.map((format) => headProbe(plan, sizes, format)),
  ];
}

interface Sizes {
  readonly hidden: number;
  readonly feedForward: number;
  readonly headCount: number;
  readonly embedding: MatrixSpec;
  readonly head: MatrixSpec;
}

function sizesOf(plan: Plan): Sizes {
  const width = (buffer: number): number => plan.buffers[buffer]!.width;
  let [hidden, feedForward, headCount] = [0, 0, 0];
  let embedding: MatrixSpec | undefined;
  let head: MatrixSpec | undefined;
  for (const op of plan.ops) {
    if (op.kind === 'embed') embedding = plan.weights[op.table] as MatrixSpec;
    if (op.kind === 'swiglu') feedForward = Math.max(feedForward, width(op.gate));
    if (op.kind === 'attention') headCount = Math.max(headCount, op.headCount);
    if (op.kind !== 'logits') continue;
    head = plan.weights[op.weight] as MatrixSpec;
    hidden = width(op.input);
  }
  if (!embedding || !head || headCount === 0 || feedForward === 0)
    throw new Error('the model lacks an operation that is to be measured');
  return { hidden, feedForward, headCount, embedding, head };
}

/** What elementwise operations are measured by. */
function traffic(bytesPerRow: number): (rowCount: number) => KernelWork {
  return (rowCount) => ({ bytes: rowCount * bytesPerRow, operations: 0 });
}

const oneSequenceFrom0: Pick<KernelProbe, 'batch' | 'blockCount'> = {
  batch: (rowCount) => oneSequence(rowCount),
  blockCount: (maxRows) => 1 + Math.ceil(maxRows / BLOCK_SIZE),
};

/** A probe that needs no more than `run`, which adds one run of the operation to a plan. */
function simpleProbe(
  about: Pick<KernelProbe, 'kernel' | 'work'> & { readonly format?: string; readonly vocabSize?: number },
  plan: Plan,
  begin: (builder: PlanBuilder) => (part: ProbePart) => void,
): KernelProbe {
  const { kernel, work, format = '–', vocabSize } = about;
  return {
    ...{ kernel, work, format, maxCopies: MAX_COPIES, ...oneSequenceFrom0 },
    plan: (copies, part) => {
      const builder = new PlanBuilder(plan, vocabSize);
      const run = begin(builder);
      for (let copy = 0; copy < copies; copy++) run(part);
      return builder.finish();
    },
  };
}

function embedProbe(plan: Plan, { hidden, embedding: { rows, columns, format } }: Sizes): KernelProbe {
  const rowBytes = matrixBytes(plan, 1, columns, format);
  const about = {
    kernel: `embed: ${rows} × ${columns}`,
    format,
    vocabSize: rows,
    work: traffic(rowBytes + hidden * F32),
  };
  return simpleProbe(about, plan, (builder) => {
    const output = builder.input(columns);
    const table = builder.matrix(rows, columns, format);
    return (part) => part === 'all' && builder.add({ kind: 'embed', table, output });
  });
}

function rmsNormProbe(plan: Plan, { hidden }: Sizes): KernelProbe {
  return simpleProbe({ kernel: `rmsNorm of ${hidden}`, work: traffic(2 * hidden * F32) }, plan, (builder) => {
    const [input, output, sink] = [builder.input(hidden), builder.input(hidden), builder.buffer(hidden)];
    const weight = builder.norm(hidden);
    return (part) => {
      if (part === 'all') builder.add({ kind: 'rmsNorm', input, weight, epsilon: 1e-5, output });
      read(builder, output, sink);
    };
  });
}

function ropeProbe(plan: Plan, { headCount }: Sizes): KernelProbe {
  const width = headCount * plan.headSize;
  const about = { kernel: `rope of ${headCount} heads of ${plan.headSize}`, work: traffic(2 * width * F32) };
  return simpleProbe(about, plan, (builder) => {
    const buffer = builder.input(width);
    return (part) => part === 'all' && builder.add({ kind: 'rope', buffer, headCount, rope: 0 });
  });
}

function kvWriteProbe(plan: Plan): KernelProbe {
  const { kvHeadCount, headSize } = plan;
  const width = kvHeadCount * headSize;
  const about = {
    kernel: `kvWrite of ${kvHeadCount} heads of ${headSize}`,
    work: traffic(2 * width * F32 + kvBytesOfLayer(plan)),
  };
  return simpleProbe(about, plan, (builder) => {
    const [key, value] = [builder.input(width), builder.input(width)];
    let next = 0;
    return (part) => {
      // A layer is written once in a plan.
      const layer = next++ === 0 ? 0 : builder.layer();
      if (part === 'all') builder.add({ kind: 'kvWrite', layer, key, value });
    };
  });
}

function swigluProbe(plan: Plan, { feedForward }: Sizes): KernelProbe {
  return simpleProbe({ kernel: `swiglu of ${feedForward}`, work: traffic(3 * feedForward * F32) }, plan, (builder) => {
    const [gate, up, output] = [builder.input(feedForward), builder.input(feedForward), builder.buffer(feedForward)];
    return (part) => part === 'all' && builder.add({ kind: 'swiglu', gate, up, output });
  });
}

function addProbe(plan: Plan, { hidden }: Sizes): KernelProbe {
  return simpleProbe({ kernel: `add of ${hidden}`, work: traffic(3 * hidden * F32) }, plan, (builder) => {
    const [left, right] = [builder.input(hidden), builder.input(hidden)];
    return (part) => part === 'all' && builder.add({ kind: 'add', left, right, output: left });
  });
}

function linearProbe(plan: Plan, { name, columns, rows }: LinearGroup, format: WeightFormat): KernelProbe {
  const outputs = rows.reduce((sum, one) => sum + one, 0);
  const bytes = matrixBytes(plan, outputs, columns, format);
  const about = {
    kernel: `${name}: ${columns} → ${rows.join(' + ')}`,
    format,
    work: (rowCount: number) => linearWork(bytes, { outputs, columns, rowCount }),
  };
  const probe = simpleProbe(about, plan, (builder) => {
    const input = builder.input(columns);
    const results = rows.map((width) => ({ output: builder.input(width), sink: builder.buffer(width), width }));
    return (part) => {
      builder.fill(input);
      if (part === 'all') {
        for (const { output, width } of results)
          builder.add({ kind: 'linear', input, weight: builder.matrix(width, columns, format), output });
      }
      for (const { output, sink } of results) read(builder, output, sink);
    };
  });
  return { ...probe, maxCopies: Math.min(MAX_COPIES, Math.max(1, Math.floor(MAX_WEIGHT_BYTES / bytes))) };
}

/** Norm, head and arg-max of every row. */
function headProbe(plan: Plan, { hidden, head: { rows } }: Sizes, format: WeightFormat): KernelProbe {
  const bytes = matrixBytes(plan, rows, hidden, format);
  return {
    ...{ kernel: `norm, head and arg-max: ${hidden} → ${rows}`, format, maxCopies: 1, ...oneSequenceFrom0 },
    batch: (rowCount) => withAllOutputs(oneSequence(rowCount)),
    work: (rowCount) => linearWork(bytes, { outputs: rows, columns: hidden, rowCount }),
    plan: (_copies, part) => {
      if (part === 'rest') return new PlanBuilder(plan).finish();
      const builder = new PlanBuilder(plan, rows);
      const input = builder.input(hidden);
      return builder.finishWith({ input, width: hidden, weight: builder.matrix(rows, hidden, format) });
    },
  };
}

function attentionProbe(
  plan: Plan,
  { headCount }: Sizes,
  wanted: number,
  shape: 'one sequence' | 'sequences of 1 row',
): KernelProbe {
  const { headSize, kvHeadCount } = plan;
  const width = headCount * headSize;
  const context = Math.min(wanted, plan.contextLength - 1);
  const start = context - (context % BLOCK_SIZE);
  const kernel = `attention of ${headCount} heads of ${headSize}, ${kvHeadCount} of K/V, ${shape} at ${start}`;
  const probe = simpleProbe({ kernel, format: 'K/V', work: () => ({ bytes: 0, operations: 0 }) }, plan, (builder) => {
    const [query, output] = [builder.input(width), builder.buffer(width)];
    const key = builder.input(kvHeadCount * headSize);
    builder.add({ kind: 'kvWrite', layer: 0, key, value: key });
    return (part) => part === 'all' && builder.add({ kind: 'attention', layer: 0, query, headCount, output });
  });
  const isOne = shape === 'one sequence';
  return {
    ...probe,
    work: (rowCount) => {
      const pairs = rowCount * start + (isOne ? (rowCount * (rowCount + 1)) / 2 : rowCount);
      const positions = isOne ? start + rowCount : rowCount * (start + 1);
      return {
        bytes: positions * kvBytesOfLayer(plan) + 2 * rowCount * width * F32,
        // A product for the score and one for the value.
        operations: 2 * 2 * pairs * width,
      };
    },
    batch: (rowCount) => (isOne ? oneSequence(rowCount, start) : manySequences(rowCount, start)),
    blockCount: (maxRows) => 1 + start / BLOCK_SIZE + (isOne ? Math.ceil(maxRows / BLOCK_SIZE) : maxRows),
    context: (maxRows) => fillBatches(start, maxRows),
  };
}

/** Something that is no part of an operation but reads what it wrote, or a backend might leave it out. */
function read(builder: PlanBuilder, buffer: number, sink: number): void {
  builder.add({ kind: 'add', left: buffer, right: buffer, output: sink });
}

function linearWork(
  weightBytes: number,
  { outputs, columns, rowCount }: { readonly outputs: number; readonly columns: number; readonly rowCount: number },
): KernelWork {
  return {
    bytes: weightBytes + rowCount * (columns + outputs) * F32,
    operations: 2 * rowCount * columns * outputs,
  };
}

function matrixBytes(plan: Plan, rows: number, columns: number, format: WeightFormat): number {
  return memoryNeeded({ ...plan, weights: [{ kind: 'matrix', name: 'matrix', rows, columns, format }] }).weightBytes;
}

function kvBytesOfLayer(plan: Plan): number {
  return kvBytesPerPosition({ ...plan, layerCount: 1 });
}
