import { assertNever, type BackendFactory, isStetError } from '@stet/backend';
import { createWebGpuBackend, WebGpu } from '@stet/backend-webgpu';
import { type LoadedModel, loadGguf, loadModel, urlSource } from '@stet/model';
import { createReferenceBackend } from '@stet/reference';
import { answerWork } from '../work.js';
import type { PageAsk, PageBackend, PageModel, PageReply, StetMatrixPage } from './page-messages.js';

// The page of the matrix: engines in a browser, asked by the program that opened it.

type Format = PageAsk['work']['schedule']['format'];

class MatrixPage {
  #gpu: Promise<WebGpu> | undefined;

  describeGpu(): Promise<PageReply<string>> {
    return replied(async () => (await this.#openGpu()).description);
  }

  answer({ backend, model, work }: PageAsk): ReturnType<StetMatrixPage['stetMatrix']['answer']> {
    return replied(async () =>
      answerWork(work, { backend: await this.#factory(backend), open: (format) => openModel(model, format) }),
    );
  }

  async #factory(backend: PageBackend): Promise<BackendFactory> {
    switch (backend) {
      case 'webgpu':
        return createWebGpuBackend({ device: await this.#openGpu(), selfTest: false });
      case 'reference':
        return createReferenceBackend;
      default:
        return assertNever(backend);
    }
  }

  #openGpu(): Promise<WebGpu> {
    this.#gpu ??= WebGpu.open();
    return this.#gpu;
  }
}

function openModel({ name, layout, files }: PageModel, format: Format): Promise<LoadedModel> {
  const source = urlSource(Object.fromEntries(files));
  switch (layout) {
    case 'folder':
      return loadModel(source, { name, format });
    case 'gguf':
      return loadGguf(source, files[0]![0], { name, format });
    default:
      return assertNever(layout);
  }
}

async function replied<T>(run: () => Promise<T>): Promise<PageReply<T>> {
  try {
    return { kind: 'reply', value: await run() };
  } catch (error) {
    if (!isStetError(error)) throw error;
    return { kind: 'error', code: error.code, message: error.message };
  }
}

(globalThis as unknown as StetMatrixPage).stetMatrix = new MatrixPage();
