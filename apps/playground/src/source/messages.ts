import type { StetErrorCode } from '@stet/backend';
import type { GenerateEvent } from '@stet/engine';
import type { AnswerRequest, SourceInfo } from './answer-source.js';

export const backendNames = ['webgpu', 'reference'] as const;
export type BackendName = (typeof backendNames)[number];

export const policyNames = ['auto', 'dvr', 'direct'] as const;
export type PolicyName = (typeof policyNames)[number];

/** What the user chooses before a model is loaded. */
export interface EngineChoice {
  readonly backend: BackendName;
  readonly policy: PolicyName;
}

/** `fetch` counts the bytes that arrive, `digest` those that are hashed, `weights` the weights that are on the device. */
export interface OpenProgress {
  readonly phase: 'fetch' | 'digest' | 'weights';
  readonly done: number;
  readonly total: number;
}

/** A `StetError` on its way between threads. */
export interface ErrorFields {
  readonly code: StetErrorCode;
  readonly message: string;
}

/** From the page to the worker. `open` comes first and once. */
export type ToWorker =
  | { readonly kind: 'open'; readonly choice: EngineChoice }
  | { readonly kind: 'generate'; readonly id: number; readonly request: AnswerRequest }
  | { readonly kind: 'cancel'; readonly id: number }
  | { readonly kind: 'close' };

/** From the worker to the page. Every request gets events and then one `ended`. */
export type FromWorker =
  | { readonly kind: 'progress'; readonly progress: OpenProgress }
  | { readonly kind: 'opened'; readonly info: SourceInfo }
  | { readonly kind: 'refused'; readonly error: ErrorFields }
  | { readonly kind: 'event'; readonly id: number; readonly event: GenerateEvent }
  | { readonly kind: 'ended'; readonly id: number; readonly error?: ErrorFields }
  | { readonly kind: 'closed' };
