import { assertNever, type BackendFactory, composeBackends, StetError } from '@stet/backend';
import type { IsaOption, PackedOutcome } from '@stet/backend-cpu';
import {
  type CreateEngineOptions,
  createEngine,
  dvr,
  type KvOptions,
  type PolicyOption,
  promptLookup,
  type StetEngine,
} from '@stet/engine';
import type { FormatOption, LoadedModel } from '@stet/model';
import { loadModelPath } from '@stet/model/node';
import { type BackendName, usesCpuBackend } from './backend-names.js';
import { loadingLine } from './loading-line.js';
import { locateModel } from './locate-model.js';
import { describePacked, packedCacheFolder } from './packed-cache.js';

export interface ModelChoice {
  /** A folder, a `.gguf` file, `tales`, or `org/name[:file]` that was pulled. */
  readonly model: string;
  readonly format: FormatOption;
  /** Positions that are used; by default all that the model has. */
  readonly context?: number;
}

export interface BackendChoice {
  readonly backend: BackendName;
  readonly threads?: number;
  readonly isa?: IsaOption;
  /** Keep packed weights of the CPU backend in the user's cache, and read what is there. */
  readonly packedCache?: boolean;
}

/** How tokens are found; no choice changes a bit of a deterministic answer. */
export interface PolicyChoice {
  readonly policy: 'auto' | 'dvr' | 'direct';
  /** Candidates of a verify window, with `dvr`. */
  readonly window?: number;
  /** Guess tokens by prompt look-up. */
  readonly draft?: boolean;
}

export type EngineChoice = ModelChoice & BackendChoice & PolicyChoice;

export interface OpenOptions
  extends Omit<CreateEngineOptions, 'model' | 'format' | 'contextLength' | 'backend' | 'policy' | 'drafter'> {
  /** Gives K/V room for so many sequences of the whole context, in place of `kv`. */
  readonly sequences?: number;
  /** Called with what became of packed weights, where they are kept. */
  readonly onPacked?: (outcome: PackedOutcome) => void;
}

/**
 * Rejects with a `StetError`. What was chosen runs or fails; nothing else takes its place. A terminal shows how far
 * loading is, if it takes long.
 */
export async function openEngine(
  choice: EngineChoice,
  { sequences, onPacked, ...options }: OpenOptions = {},
): Promise<StetEngine> {
  const policy = choosePolicy(choice);
  const line = loadingLine(process.stderr);
  const backend = await chooseBackend(choice, (outcome) => {
    onPacked?.(outcome);
    if (outcome.kind !== 'skipped') return;
    line.end();
    console.error(`note: packed weights are ${describePacked(outcome)} (--no-packed-cache turns this off)`);
  });
  const { onProgress = line.onProgress, signal } = options;
  try {
    const model = await openModel(choice, { onProgress, ...(signal && { signal }) });
    const kv = sequences === undefined ? {} : { kv: kvFor(sequences, model.contextLength) };
    const drafter = choice.draft && { drafter: promptLookup() };
    return await createEngine({ model, backend, policy, ...drafter, ...options, ...kv, onProgress });
  } finally {
    line.end();
  }
}

function choosePolicy({ policy, window }: PolicyChoice): PolicyOption {
  if (window === undefined) return policy;
  if (policy === 'dvr') return dvr({ windowTokens: window });
  throw new StetError('STET_ERR_UNSUPPORTED', `--window is an option of --policy dvr alone, not of ${policy}`);
}

const BLOCK_SIZE = 16;

function kvFor(sequences: number, contextLength: number): KvOptions {
  return { blockSize: BLOCK_SIZE, blockCount: sequences * Math.ceil(contextLength / BLOCK_SIZE) };
}

export interface OpenModelChoice extends Pick<CreateEngineOptions, 'signal' | 'onProgress'> {
  /** `none` reads a model without its text. */
  readonly tokenizer?: 'required' | 'none';
}

export async function openModel(
  { model, format, context }: ModelChoice,
  { signal, onProgress, tokenizer = 'required' }: OpenModelChoice = {},
): Promise<LoadedModel> {
  const { path, name } = await locateModel(model);
  return loadModelPath(path, {
    ...{ format, tokenizer },
    ...(name !== undefined && { name }),
    ...(context !== undefined && { contextLength: context }),
    ...(signal && { signal }),
    ...(onProgress && { onProgress: (done: number, total: number) => onProgress({ phase: 'files', done, total }) }),
  });
}

export async function chooseBackend(
  choice: BackendChoice,
  onOutcome: (outcome: PackedOutcome) => void = () => {},
): Promise<BackendFactory> {
  const { backend, threads, isa } = choice;
  if (!usesCpuBackend(backend) && (threads !== undefined || isa !== undefined))
    throw new StetError('STET_ERR_UNSUPPORTED', '--threads and --isa are options of the CPU backend alone');
  switch (backend) {
    case 'cpu':
      return cpuBackend(choice, onOutcome);
    case 'reference':
      return (await import('@stet/reference')).createReferenceBackend;
    case 'webgpu':
      return webGpuBackend();
    case 'webgpu+cpu':
      return composeBackends({ fast: await webGpuBackend(), canonical: await cpuBackend(choice, onOutcome) });
    default:
      return assertNever(backend);
  }
}

async function cpuBackend(
  { threads, isa, packedCache }: BackendChoice,
  onOutcome: (outcome: PackedOutcome) => void,
): Promise<BackendFactory> {
  const { createCpuBackend } = await import('@stet/backend-cpu');
  return createCpuBackend({
    ...(threads !== undefined && { threads }),
    ...(isa !== undefined && { isa }),
    ...(packedCache && { packedWeights: { folder: packedCacheFolder(process.env), onOutcome } }),
  });
}

async function webGpuBackend(): Promise<BackendFactory> {
  return (await import('@stet/backend-webgpu')).createWebGpuBackend();
}
