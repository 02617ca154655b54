import { type BackendFactory, StetError } from '@stet/backend';
import type { IsaOption } from '@stet/backend-cpu';
import {
  type CreateEngineOptions,
  createEngine,
  dvr,
  type KvOptions,
  type PolicyOption,
  promptLookup,
  type StetEngine,
} from '@stet/engine';
import type { LoadedModel } from '@stet/model';
import { loadModelFolder } from '@stet/model/node';

export interface ModelChoice {
  /** A folder, or `tales`. */
  readonly model: string;
  readonly format: 'bf16' | 'q8';
}

export interface BackendChoice {
  readonly backend: 'cpu' | 'reference';
  readonly threads?: number;
  readonly isa?: IsaOption;
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

export interface OpenOptions extends Omit<CreateEngineOptions, 'model' | 'backend' | 'policy' | 'drafter'> {
  /** Gives K/V room for so many sequences of the whole context, in place of `kv`. */
  readonly sequences?: number;
}

/** Rejects with a `StetError`. What was chosen runs or fails; nothing else takes its place. */
export async function openEngine(
  choice: EngineChoice,
  { sequences, ...options }: OpenOptions = {},
): Promise<StetEngine> {
  const policy = choosePolicy(choice);
  const backend = await chooseBackend(choice);
  const model = await openModel(choice);
  const kv = sequences === undefined ? {} : { kv: kvFor(sequences, model.contextLength) };
  return createEngine({ model, backend, policy, ...(choice.draft && { drafter: promptLookup() }), ...options, ...kv });
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

export async function openModel({ model, format }: ModelChoice): Promise<LoadedModel> {
  const { talesFolder, talesName } = await import('@stet/tales');
  return model === talesName
    ? loadModelFolder(talesFolder, { name: talesName, format })
    : loadModelFolder(model, { format });
}

export async function chooseBackend({ backend, threads, isa }: BackendChoice): Promise<BackendFactory> {
  switch (backend) {
    case 'cpu': {
      const { createCpuBackend } = await import('@stet/backend-cpu');
      return createCpuBackend({ ...(threads !== undefined && { threads }), ...(isa !== undefined && { isa }) });
    }
    case 'reference': {
      if (threads !== undefined || isa !== undefined)
        throw new StetError('STET_ERR_UNSUPPORTED', '--threads and --isa are options of the CPU backend alone');
      const { createReferenceBackend } = await import('@stet/reference');
      return createReferenceBackend;
    }
  }
}
