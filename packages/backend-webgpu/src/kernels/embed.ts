import type { WeightFormat } from '@stet/backend';
import embed from '../../../../kernels/wgsl/embed.wgsl';
import embedBf16 from '../../../../kernels/wgsl/embed_bf16.wgsl';
import embedQ4 from '../../../../kernels/wgsl/embed_q4.wgsl';
import embedQ8 from '../../../../kernels/wgsl/embed_q8.wgsl';
import { Kernel } from '../device/kernel.js';
import { acrossRows, type KernelCall } from '../program/kernel-call.js';
import type { DeviceMatrix } from '../weights/device-weight.js';

const kernels: Readonly<Record<WeightFormat, Kernel>> = {
  bf16: new Kernel('embed_bf16', embedBf16 + embed),
  q8: new Kernel('embed_q8', embedQ8 + embed),
  q4: new Kernel('embed_q4', embedQ4 + embed),
};

/** Elements that an invocation writes. */
const span: Readonly<Record<WeightFormat, number>> = { bf16: 8, q8: 16, q4: 32 };

/** output (rowCount × columns) = the rows of the table that the batch's tokens name. Each part writes the rows whose token it has. */
export function embedCalls({
  table,
  output,
}: {
  readonly table: DeviceMatrix;
  readonly output: GPUBuffer;
}): KernelCall[] {
  const { format, columns } = table;
  return table.parts.map(({ firstRow, rowCount: tokenCount, data, scales }) => ({
    kernel: kernels[format],
    params: { columns, firstToken: firstRow, tokenCount },
    buffers: { data, ...(scales && { scales }), output },
    workgroups: ({ rowCount }) => acrossRows(Math.ceil(columns / span[format] / 64), rowCount),
  }));
}
