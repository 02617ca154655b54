import { assert, type OpCase } from '@stet/backend';
import { embedCalls } from '../kernels/embed.js';
import { type UploadOptions, uploadWeight } from '../weights/upload-weight.js';
import type { OpScratch } from './op-scratch.js';

export async function runEmbed(
  scratch: OpScratch,
  { rows, columns, table: data, tokens }: OpCase & { kind: 'embed' },
  options: UploadOptions = {},
): Promise<Float32Array> {
  assert(data.kind !== 'vector', 'the table of an embedding is a matrix');
  const spec = { kind: 'matrix', name: 'table', rows, columns, format: data.kind } as const;
  const table = uploadWeight(scratch.gpu, scratch.memory, spec, data, options);
  assert(table.kind === 'matrix', 'a matrix is uploaded as one');
  const count = tokens.length * columns;
  const output = scratch.empty(count * 4);
  return scratch.run(embedCalls({ table, output }), { rowCount: tokens.length, tokens }, output, count);
}
