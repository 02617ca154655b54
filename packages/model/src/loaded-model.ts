import type { Plan, WeightSource, WeightSpec } from '@stet/backend';
import type { GenerationDefaults } from './config/generation-config.js';
import type { RopeConfig } from './config/rope-config.js';
import type { Hasher } from './digest/hasher.js';
import type { ChatTemplate } from './text/chat-template.js';
import type { Tokenizer } from './text/tokenizer.js';
import type { FormatOption, FormatUse } from './weights/choose-formats.js';

export interface LoadOptions {
  /**
   * Format of all matrices, or `auto`, for each matrix what suits the tensor that it is stored as: {@link LoadedModel.formats}
   * says which and why. Part of the fingerprint. By default {@link DEFAULT_FORMAT}.
   */
  readonly format?: FormatOption;
  /** `none`: the model is used by token ids alone, without text. Otherwise it must have a tokenizer. */
  readonly tokenizer?: 'required' | 'none';
  /**
   * Positions to use, at most those that the model was made for, which is the default. Fewer need less memory; how
   * positions are rotated does not change. It is part of the fingerprint.
   */
  readonly contextLength?: number;
  /** By default the last part of the source's location. */
  readonly name?: string;
  /** Called as the files are read for the digest, with bytes. */
  readonly onProgress?: (doneBytes: number, totalBytes: number) => void;
  /** Makes loading reject with `STET_ERR_ABORTED`. */
  readonly signal?: AbortSignal;
  /** SHA-256 for the digest; by default the one in JavaScript. */
  readonly createHasher?: () => Hasher;
}

/** A model that is ready for a backend. Weights are read from the source when a backend asks for them. */
export interface LoadedModel {
  readonly name: string;
  /** As the plan names it, e.g. `llama`. */
  readonly architecture: string;
  readonly plan: Plan;
  /** How positions are rotated, before it became the plan's frequencies. */
  readonly rope: RopeConfig;
  readonly weights: WeightSource;
  /** Values of a weight before the numerics round them, row-major: what accuracy is measured against. Absent where they are not at hand. */
  readonly exactValues?: (spec: WeightSpec) => Promise<Float32Array>;
  /** Values of all weights; those of a tied head count once. */
  readonly parameterCount: number;
  readonly storage: Storage;
  /** What the matrices of the plan are stored as in a backend; what most of them have comes first. */
  readonly formats: readonly FormatUse[];
  /** Absent where `tokenizer: 'none'` was asked for. */
  readonly tokenizer?: Tokenizer;
  /** Absent where the model has none. */
  readonly chatTemplate?: ChatTemplate;
  readonly bosId?: number;
  /** Any of them ends a text; ascending. */
  readonly eosIds: readonly number[];
  readonly contextLength: number;
  readonly generationDefaults: GenerationDefaults;
  /** 64 hex digits over all files that the model is made of. */
  readonly digest: string;
  /** Closes the files; weights cannot be read any more, text can. May be called twice. */
  close(): Promise<void>;
}

/** What a model takes on disk. */
export interface Storage {
  /** All files that it is made of, names ascending. */
  readonly files: readonly string[];
  /** Size of these files together. */
  readonly bytes: number;
  /** Of the tensors, those that take most bytes first. */
  readonly tensorTypes: readonly TensorTypeUse[];
}

export interface TensorTypeUse {
  /** As the format of the files names it, e.g. `BF16` or `Q4_K`. */
  readonly type: string;
  readonly tensorCount: number;
  readonly bytes: number;
}
