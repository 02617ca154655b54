import { assertNever, type OpCase, type OpOutputs, type OpRunner } from '@stet/backend';
import { WebGpu, type WebGpuOptions } from '../device/web-gpu.js';
import { OpScratch } from './op-scratch.js';
import { runAdd } from './run-add.js';
import { runAttention } from './run-attention.js';
import { runEmbed } from './run-embed.js';
import { runLinear } from './run-linear.js';
import { runLinearFast } from './run-linear-fast.js';
import { runRmsNorm } from './run-rms-norm.js';
import { runRope } from './run-rope.js';
import { runSwiglu } from './run-swiglu.js';

export interface WebGpuOpOptions extends WebGpuOptions {
  /** Runs on this device and leaves it open; opens one of its own by default. */
  readonly device?: WebGpu;
  /** Whose kernels run; `canonical` by default. */
  readonly schedule?: 'fast' | 'canonical';
}

export type Schedule = 'fast' | 'canonical';

/** Single operations on a device, for golden vectors. Rejects with `STET_ERR_BACKEND_UNAVAILABLE` where there is none. */
export async function createWebGpuOpRunner(options: WebGpuOpOptions = {}): Promise<OpRunner> {
  const { schedule = 'canonical' } = options;
  const gpu = options.device ?? (await WebGpu.open(options));
  return {
    async run(input) {
      gpu.checkAlive();
      const scratch = new OpScratch(gpu);
      try {
        return { output: await runCase(scratch, input, schedule) };
      } finally {
        scratch.free();
      }
    },
    async close() {
      if (!options.device) gpu.close();
    },
  };
}

async function runCase(scratch: OpScratch, input: OpCase, schedule: Schedule): Promise<OpOutputs['output']> {
  switch (input.kind) {
    case 'add':
      return runAdd(scratch, input);
    case 'attention':
      return runAttention(scratch, input, schedule);
    case 'embed':
      return runEmbed(scratch, input);
    case 'linear':
      return schedule === 'fast' ? runLinearFast(scratch, input) : runLinear(scratch, input);
    case 'rmsNorm':
      return runRmsNorm(scratch, input);
    case 'rope':
      return runRope(scratch, input);
    case 'swiglu':
      return runSwiglu(scratch, input);
    default:
      return assertNever(input);
  }
}
