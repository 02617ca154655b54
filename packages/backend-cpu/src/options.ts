import { availableParallelism } from 'node:os';
import { assertNever, StetError, type WeightFormat } from '@stet/backend';
import type { Addon, IsaName, NativeIsa } from './addon.js';

export type IsaOption = 'auto' | IsaName;

/**
 * What runs batches of the fast schedule. `native`: the quickest kernels of this CPU.
 *
 * `batch-shaped`: a mode for studies, and slower. It reduces as libraries for GPUs do: sums of linears are split into parts by the rows
 * that share the batch (as split-K), attention by how many sequences share it and how long the context is (as
 * flash-decoding), each part is summed in f32, and what an operation stores is rounded to bf16. So the answer to an ordinary request depends on
 * its company, as it does on a GPU. Equal batches give equal bits, on every instruction set. kernels/README.md has the tables
 * of splits. Byte formats take more memory: their matrices are kept as bf16, too.
 */
export type FastOption = (typeof fastOptions)[number];
const fastOptions = ['native', 'batch-shaped'] as const;

export interface CpuOptions {
  /** Threads that run a step, the backend's own among them: 1 to 256; the default is the number of cores this process may use. */
  readonly threads?: number;
  /** Instruction set of the kernels: the default `auto` is the best that this CPU has. */
  readonly isa?: IsaOption;
  /** Kernels of the fast schedule; the default is `native`. Canonical bits are the same with both. */
  readonly fast?: FastOption;
  /** Whether golden vectors and models are checked before the first load of an instruction set in this process; the default is true. */
  readonly selfTest?: boolean;
  /** Keeps packed weights in files, so that the next load of the same weights is quick; by default no file is written. */
  readonly packedWeights?: PackedWeightsOptions;
}

export interface PackedWeightsOptions {
  /** Of these files alone; made where it is missing. */
  readonly folder: string;
  /** Most bytes of all files together: those not used for longest are removed. {@link DEFAULT_PACKED_BYTES} by default. */
  readonly maxBytes?: number;
  /** Called once in every load that succeeds, before it resolves. */
  readonly onOutcome?: (outcome: PackedOutcome) => void;
}

/** What became of the packed weights of a load. The bits of its answers are the same in every case. */
export type PackedOutcome =
  /** They were read from a file. */
  | { readonly kind: 'read'; readonly path: string; readonly bytes: number }
  /** They were packed and written; `replaced` says what was wrong with a file that was there. */
  | { readonly kind: 'written'; readonly path: string; readonly bytes: number; readonly replaced?: string }
  /** They were packed and are in memory alone. */
  | { readonly kind: 'skipped'; readonly reason: string };

export const DEFAULT_PACKED_BYTES = 16 * 2 ** 30;

/** Most threads of one backend. */
export const MAX_THREADS = 256;

/** Numbers as kernels.h has them. */
export const isaNumber: Readonly<Record<IsaName, number>> = { scalar: 0, avx2: 1, avx512: 2 };
/** The number of the addon's table of kernels: native/binding.h. */
export function kernelsNumber(isa: IsaName, fast: FastOption): number {
  return isaNumber[isa] + fastOptions.indexOf(fast) * Object.keys(isaNumber).length;
}

export const scheduleNumber = { fast: 0, canonical: 1 } as const;

/** Formats of weights that there are kernels for. */
export const cpuFormats: readonly WeightFormat[] = ['bf16', 'q8', 'q4'];

export function formatNumber(format: WeightFormat): number {
  switch (format) {
    case 'bf16':
      return 0;
    case 'q8':
      return 1;
    case 'q4':
      return 2;
    default:
      return assertNever(format);
  }
}

/** A sliding window as the kernels take it: 0 for the whole context, also where no window is that small. */
export function windowWord(windowSize: number | undefined, contextLength: number): number {
  return windowSize === undefined || windowSize >= contextLength ? 0 : windowSize;
}

const isaTitle: Readonly<Record<IsaName, string>> = { scalar: 'scalar', avx2: 'AVX2', avx512: 'AVX-512' };

/** The instruction set that an option means here. Throws `STET_ERR_UNSUPPORTED` that names the missing CPU feature. */
export function chooseIsa(addon: Addon, option: IsaOption): NativeIsa {
  const { isas } = addon.features();
  if (option === 'auto') return isas.findLast((isa) => isa.available)!;
  const isa = isas.find((candidate) => candidate.name === option);
  if (!isa) {
    throw new StetError(
      'STET_ERR_UNSUPPORTED',
      `isa is ${JSON.stringify(option)}, expected auto, scalar, avx2 or avx512`,
    );
  }
  if (!isa.available) {
    throw new StetError('STET_ERR_UNSUPPORTED', `the instruction set ${option} is not available here: ${isa.reason}`);
  }
  return isa;
}

/** Throws `STET_ERR_UNSUPPORTED` for what is no option. */
export function chooseFast(option: FastOption | undefined): FastOption {
  if (option === undefined) return 'native';
  if (fastOptions.includes(option)) return option;
  throw new StetError(
    'STET_ERR_UNSUPPORTED',
    `fast is ${JSON.stringify(option)}, expected ${fastOptions.join(' or ')}`,
  );
}

/** Throws `STET_ERR_UNSUPPORTED` for a number out of range. */
export function chooseThreads(option: number | undefined): number {
  if (option === undefined) return Math.min(availableParallelism(), MAX_THREADS);
  if (!Number.isInteger(option) || option < 1 || option > MAX_THREADS) {
    throw new StetError('STET_ERR_UNSUPPORTED', `threads is ${option}, expected an integer from 1 to ${MAX_THREADS}`);
  }
  return option;
}

/** `AVX-512 (bf16 dot, vnni), 2 threads` */
export function describeDevice(isa: NativeIsa, threads: number, fast: FastOption): string {
  const features = isa.features ? ` (${isa.features})` : '';
  const mode = fast === 'batch-shaped' ? ', batch-shaped study mode' : '';
  return `${isaTitle[isa.name]}${features}, ${threads} ${threads === 1 ? 'thread' : 'threads'}${mode}`;
}
