import {
  assertNever,
  type OpCase,
  type OpOutputs,
  type OpRunner,
  StetError,
  type WeightData,
  type WeightFormat,
} from '@stet/backend';
import { attentionScale, rmsNormConstants, ropeTables } from '@stet/backend/numerics';
import { type Addon, type IsaName, type NativeMatrix, requireAddon, rethrowNative } from './addon.js';
import { MAX_HEAD_SIZE } from './load.js';
import {
  type CpuOptions,
  chooseFast,
  chooseIsa,
  formatNumber,
  kernelsNumber,
  scheduleNumber,
  windowWord,
} from './options.js';

export interface CpuOpRunnerOptions extends Pick<CpuOptions, 'isa' | 'fast'> {
  /** Kernels to run; the default, and what golden vectors are for, is `canonical`. */
  readonly schedule?: keyof typeof scheduleNumber;
}

/** Runs single kernels on plain arrays, on the caller's thread. Throws what `createCpuBackend` rejects with. */
export function createCpuOpRunner(options: CpuOpRunnerOptions = {}): OpRunner & { readonly isa: IsaName } {
  const addon = requireAddon();
  const isa = chooseIsa(addon, options.isa ?? 'auto').name;
  const schedule = scheduleNumber[options.schedule ?? 'canonical'];
  const kernels = kernelsNumber(isa, chooseFast(options.fast));
  let closed = false;
  return {
    isa,
    async run(input: OpCase): Promise<OpOutputs> {
      if (closed) throw new StetError('STET_ERR_BACKEND_CLOSED', 'the op runner is closed');
      try {
        return { output: runOp(addon, kernels, schedule, input) };
      } catch (error) {
        return rethrowNative(error);
      }
    },
    async close(): Promise<void> {
      closed = true;
    },
  };
}

function runOp(addon: Addon, kernels: number, schedule: number, input: OpCase): Float32Array {
  switch (input.kind) {
    case 'embed': {
      const { rows, columns, table, tokens } = input;
      const output = new Float32Array(tokens.length * columns);
      addon.opEmbed(kernels, schedule, ...nativeMatrix(rows, columns, table), tokens, output);
      return output;
    }
    case 'linear': {
      const { rows, columns, format, weight, bias } = input;
      const output = new Float32Array((input.input.length / columns) * rows);
      addon.opLinear(kernels, schedule, ...nativeMatrix(rows, columns, weight, format), bias, input.input, output);
      return output;
    }
    case 'rmsNorm': {
      const { width, groupCount = 1, epsilon, weight } = input;
      const { scaledEpsilon, rootWidth } = rmsNormConstants(width / groupCount, epsilon);
      const output = new Float32Array(input.input.length);
      addon.opNorm(
        kernels,
        schedule,
        groupCount,
        Float32Array.of(scaledEpsilon, rootWidth),
        weight,
        input.input,
        output,
      );
      return output;
    }
    case 'rope': {
      const { headCount, headSize, positions } = input;
      const { cosine, sine } = ropeTables(input.rope, positions.reduce((most, p) => Math.max(most, p), 0) + 1);
      const output = input.input.slice();
      addon.opRope(kernels, schedule, headCount, headSize, positions, cosine, sine, output);
      return output;
    }
    case 'attention': {
      const { headCount, kvHeadCount, headSize, blockSize, windowSize, key, value, query, queryPositions } = input;
      if (headSize > MAX_HEAD_SIZE) {
        throw new StetError(
          'STET_ERR_UNSUPPORTED',
          `heads of ${headSize} elements, at most ${MAX_HEAD_SIZE} are supported`,
        );
      }
      const positionCount = key.length / (kvHeadCount * headSize);
      const sizes = Int32Array.of(headCount, kvHeadCount, headSize, blockSize, windowWord(windowSize, positionCount));
      const scale = Float32Array.of(attentionScale(headSize));
      const output = new Float32Array(query.length);
      addon.opAttention(kernels, schedule, sizes, scale, key, value, query, queryPositions, output);
      return output;
    }
    case 'swiglu': {
      const output = new Float32Array(input.gate.length);
      addon.opSwiglu(kernels, schedule, input.gate, input.up, output);
      return output;
    }
    case 'add': {
      const output = new Float32Array(input.left.length);
      addon.opAdd(kernels, schedule, input.left, input.right, output);
      return output;
    }
    default:
      return assertNever(input);
  }
}

/** A matrix as the addon takes it; throws `STET_ERR_BAD_WEIGHTS` for a vector and for another format. */
export function nativeMatrix(rows: number, columns: number, data: WeightData, format?: WeightFormat): NativeMatrix {
  if (format && data.kind !== format) {
    throw new StetError('STET_ERR_BAD_WEIGHTS', `the weight came as ${data.kind}, expected ${format}`);
  }
  switch (data.kind) {
    case 'bf16':
      return [formatNumber(data.kind), rows, columns, data.bits, undefined, undefined];
    case 'q8':
      return [formatNumber(data.kind), rows, columns, data.quants, data.scales, undefined];
    case 'q4':
      return [formatNumber(data.kind), rows, columns, data.nibbles, data.scales, data.centres];
    case 'vector':
      throw new StetError('STET_ERR_BAD_WEIGHTS', 'a vector stands where a matrix is needed');
    default:
      return assertNever(data);
  }
}
