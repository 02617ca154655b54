import { assertNever, type OpCase, type OpOutputs, type OpRunner, StetError, type WeightData } from '@stet/backend';
import { ropeTables } from '@stet/backend/numerics';
import { allocateKvLayer, slotsOf } from './kv-store.js';
import { add } from './ops/add.js';
import { allocateAttention, attention, firstAttended } from './ops/attention.js';
import { embed } from './ops/embed.js';
import { kvWrite } from './ops/kv-write.js';
import { linear } from './ops/linear.js';
import { rmsNorm } from './ops/rms-norm.js';
import { rope } from './ops/rope.js';
import { swiglu } from './ops/swiglu.js';

/** Runs single operations of the canonical numerics; the golden vectors are its outputs. */
export function createReferenceOpRunner(): OpRunner {
  let closed = false;
  return {
    async run(input: OpCase): Promise<OpOutputs> {
      if (closed) throw new StetError('STET_ERR_BACKEND_CLOSED', 'the op runner is closed');
      return { output: runOp(input) };
    },
    async close(): Promise<void> {
      closed = true;
    },
  };
}

/** The output of one case. Throws `STET_ERR_BAD_WEIGHTS` where a matrix is not one. */
export function runOp(input: OpCase): Float32Array {
  switch (input.kind) {
    case 'embed':
      return runEmbed(input);
    case 'rmsNorm': {
      const output = new Float32Array(input.input.length);
      const { width, epsilon, groupCount = 1, weight } = input;
      rmsNorm(input.input, weight, epsilon, width, groupCount, output.length / width, output);
      return output;
    }
    case 'linear':
      return runLinear(input);
    case 'rope':
      return runRope(input);
    case 'attention':
      return runAttention(input);
    case 'swiglu': {
      const output = new Float32Array(input.gate.length);
      swiglu(input.gate, input.up, 0, output.length, output);
      return output;
    }
    case 'add': {
      const output = new Float32Array(input.left.length);
      add(input.left, input.right, output.length, output);
      return output;
    }
    default:
      return assertNever(input);
  }
}

function runEmbed(input: OpCase & { kind: 'embed' }): Float32Array {
  const table = matrixData(input.table);
  const output = new Float32Array(input.tokens.length * input.columns);
  for (const [row, token] of input.tokens.entries()) embed(table, input.columns, token, output, row * input.columns);
  return output;
}

function runLinear(input: OpCase & { kind: 'linear' }): Float32Array {
  const { rows, columns, weight, bias } = input;
  const rowCount = input.input.length / columns;
  const output = new Float32Array(rowCount * rows);
  linear({ rows, columns, weight: matrixData(weight), bias, input: input.input, rowCount, output })(0, rows);
  return output;
}

function runRope(input: OpCase & { kind: 'rope' }): Float32Array {
  const { headCount, headSize, positions } = input;
  const tables = ropeTables(input.rope, Math.max(...positions) + 1);
  const output = input.input.slice();
  for (const [row, position] of positions.entries()) {
    for (let head = 0; head < headCount; head++) {
      rope(output, (row * headCount + head) * headSize, headSize, tables, position);
    }
  }
  return output;
}

function runAttention(input: OpCase & { kind: 'attention' }): Float32Array {
  const { headCount, kvHeadCount, headSize, blockSize, windowSize } = input;
  const positionCount = input.key.length / (kvHeadCount * headSize);
  const blockCount = Math.ceil(positionCount / blockSize);
  const layer = allocateKvLayer((blockCount + 1) * blockSize, kvHeadCount, headSize);
  // Descending ids from the end of the pool, so that positions and slots are never the same thing.
  const blocks = Int32Array.from({ length: blockCount }, (_, i) => blockCount - i);
  const slots = slotsOf(blocks, blockSize, positionCount);
  for (let p = 0; p < positionCount; p++) kvWrite(layer, slots[p], input.key, input.value, p * kvHeadCount * headSize);
  const scratch = allocateAttention(headSize);
  const output = new Float32Array(input.query.length);
  const share = headCount / kvHeadCount;
  for (const [row, position] of input.queryPositions.entries()) {
    const first = firstAttended(position, windowSize);
    for (let head = 0; head < headCount; head++) {
      const offset = (row * headCount + head) * headSize;
      attention(scratch, layer, Math.floor(head / share), slots, first, position, input.query, offset, output);
    }
  }
  return output;
}

function matrixData(data: WeightData): Exclude<WeightData, { kind: 'vector' }> {
  if (data.kind === 'vector') throw new StetError('STET_ERR_BAD_WEIGHTS', 'a vector stands where a matrix is needed');
  return data;
}
