import type { Answers, Work } from '../work.js';

/** What answers in a page. */
export type PageBackend = 'webgpu' | 'reference';

/** A model that the page's server has. */
export interface PageModel {
  readonly name: string;
  /** `gguf`: the first file is any part of it. */
  readonly layout: 'folder' | 'gguf';
  /** Names and URLs. */
  readonly files: readonly (readonly [name: string, url: string])[];
}

export interface PageAsk {
  readonly backend: PageBackend;
  readonly model: PageModel;
  readonly work: Work;
}

/** Errors of the world do not pass from page to program as they are. */
export type PageReply<T> =
  | { readonly kind: 'reply'; readonly value: T }
  | { readonly kind: 'error'; readonly code: string; readonly message: string };

/** The global object of the page. */
export interface StetMatrixPage {
  stetMatrix: {
    describeGpu(): Promise<PageReply<string>>;
    answer(ask: PageAsk): Promise<PageReply<Answers>>;
  };
}
