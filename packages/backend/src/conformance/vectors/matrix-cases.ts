import { assertNever } from '../../errors.js';
import { encodeBf16, encodeQ4, encodeQ8, fromBits, pow2 } from '../../numerics/index.js';
import type { OpCase } from '../../op-runner.js';
import { type WeightFormat, weightFormats } from '../../plan.js';
import type { WeightData } from '../../weights.js';
import type { OpCaseSpec } from './op-cases.js';
import { q4ParameterCases } from './q4-cases.js';
import { bellValues, createRandom, hardValues, type Random } from './random.js';

/** Cases of the operations with a matrix, in each format. */
export function matrixCases(): OpCaseSpec[] {
  return [...weightFormats.flatMap((format) => [...embedCases(format), ...linearCases(format)]), ...q4ParameterCases()];
}

function embedCases(format: WeightFormat): OpCaseSpec[] {
  const build = (): OpCase => {
    const random = createRandom(501);
    const rows = 9;
    const columns = 100;
    const table = hardMatrix(random, rows, columns, format);
    return { kind: 'embed', rows, columns, table, tokens: Int32Array.from([0, 8, 3, 3, 7, 1]) };
  };
  return [{ name: `embed ${format}: odd width`, kind: 'embed', formats: [format], subset: 'startup', build }];
}

interface LinearShape {
  readonly name: string;
  readonly rowCount: number;
  readonly rows: number;
  readonly columns: number;
  readonly bias: boolean;
  readonly subset: OpCaseSpec['subset'];
}

const LINEAR_SHAPES: readonly LinearShape[] = [
  { name: 'one row, one block', rowCount: 1, rows: 16, columns: 32, bias: false, subset: 'startup' },
  { name: 'odd sizes with a bias', rowCount: 3, rows: 33, columns: 301, bias: true, subset: 'startup' },
  { name: 'many rows', rowCount: 37, rows: 20, columns: 96, bias: false, subset: 'full' },
  { name: 'one input', rowCount: 2, rows: 5, columns: 1, bias: true, subset: 'full' },
  { name: 'whole segments', rowCount: 5, rows: 48, columns: 512, bias: false, subset: 'full' },
  { name: 'one past a segment', rowCount: 4, rows: 40, columns: 257, bias: true, subset: 'full' },
  { name: 'one short of a segment', rowCount: 4, rows: 24, columns: 255, bias: false, subset: 'full' },
  { name: 'a common width', rowCount: 9, rows: 64, columns: 576, bias: true, subset: 'full' },
  { name: 'many segments', rowCount: 2, rows: 17, columns: 2048, bias: false, subset: 'full' },
];

function linearCases(format: WeightFormat): OpCaseSpec[] {
  const spec = (name: string, subset: OpCaseSpec['subset'], build: () => OpCase): OpCaseSpec => {
    return { name: `linear ${format}: ${name}`, kind: 'linear', formats: [format], subset, build };
  };
  return [
    ...LINEAR_SHAPES.map((shape, i) => spec(shape.name, shape.subset, () => linear(shape, 600 + i, format))),
    spec('extreme blocks', 'full', () => extremeLinear(650, format)),
    spec('edges of rounding', 'full', () => edgeLinear(651, format)),
  ];
}

function linear(shape: LinearShape, seed: number, format: WeightFormat): OpCase {
  const random = createRandom(seed);
  const { rowCount, rows, columns } = shape;
  const input = new Float32Array(rowCount * columns);
  for (let row = 0; row < rowCount; row++) {
    const values = row % 2 === 0 ? bellValues(random, columns) : hardValues(random, columns, 127);
    input.set(values, row * columns);
  }
  const weight = hardMatrix(random, rows, columns, format);
  return {
    kind: 'linear',
    format,
    rows,
    columns,
    weight,
    ...(shape.bias ? { bias: biases(random, rows) } : {}),
    input,
  };
}

/** Every weight and activation at its largest: the sums of a block reach their bounds. */
function extremeLinear(seed: number, format: WeightFormat): OpCase {
  const random = createRandom(seed);
  const rows = 16;
  const columns = 384;
  const largest = format === 'q8' ? 127 * 1984 : pow2(10);
  const values = Float32Array.from({ length: rows * columns }, (_, i) => (i % 97 < 60 ? 1 : random.sign()) * largest);
  const input = Float32Array.from({ length: 3 * columns }, (_, i) => {
    return (i < columns ? 1 : random.sign()) * pow2(i < 2 * columns ? 30 : 27);
  });
  return { kind: 'linear', format, rows, columns, weight: encode(values, rows, columns, format), input };
}

/** Activations at the flush, the cap and the ties of both roundings, and rows that are tiny as a whole. */
function edgeLinear(seed: number, format: WeightFormat): OpCase {
  const random = createRandom(seed);
  const rows = 16;
  const columns = 96;
  const pick = (edges: number[]): number => fromBits(edges[random.below(edges.length)]!) * random.sign();
  const flushAndCap = (): number => pick([0x267fffff, 0x26800000, 0x4e7fffff, 0x4e800001, 0x4e900000]);
  const roundingTies = (): number => pick([0x3f80007f, 0x3f800080, 0x3f800180, 0x3f80ff80]);
  const blockTies = (i: number): number => {
    const largest = [0x427dffff, 0x427e0000, 0x427e0001, 0x427dff80];
    return i % 32 === 5 ? pick(largest) : (random.below(200) + 0.5) * pow2(-8) * random.sign();
  };
  const tiny = (): number => random.fine() * pow2(-37);
  const smallest = (): number => random.fine() * pow2(-46);
  const fills = [flushAndCap, roundingTies, roundingTies, blockTies, blockTies, tiny, tiny, smallest];
  const input = Float32Array.from({ length: fills.length * columns }, (_, i) => fills[Math.floor(i / columns)]!(i));
  const weight = encode(bellValues(random, rows * columns, -4), rows, columns, format);
  return { kind: 'linear', format, rows, columns, weight, input };
}

/** Rows of ordinary weights and, each third, hard ones. */
function hardMatrix(random: Random, rows: number, columns: number, format: WeightFormat): WeightData {
  const values = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    const hard = row % 3 === 1;
    values.set(hard ? hardValues(random, columns, 10) : bellValues(random, columns, -4), row * columns);
  }
  return encode(values, rows, columns, format);
}

function encode(values: Float32Array, rows: number, columns: number, format: WeightFormat): WeightData {
  switch (format) {
    case 'bf16':
      return { kind: 'bf16', bits: encodeBf16('golden', values) };
    case 'q8':
      return { kind: 'q8', ...encodeQ8('golden', values, rows, columns) };
    case 'q4':
      return { kind: 'q4', ...encodeQ4('golden', values, rows, columns) };
    default:
      return assertNever(format);
  }
}

function biases(random: Random, count: number): Float32Array {
  return hardValues(random, count, 20).map((x) => (Math.abs(x) < pow2(-80) ? 0 : x));
}
