import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StetError, type StetErrorCode } from '@stet/backend';
import { loadModelPath } from '@stet/model/node';
import { talesFolder } from '@stet/tales';
import type { Browser, Page } from 'playwright';
import { chromiumArgs, findChromium } from '../../../scripts/webgpu/chromium.mjs';
import type { PageBackend, PageModel, PageReply, StetMatrixPage } from './page/page-messages.js';
import { PageServer } from './page-server.js';
import type { Answers, Work } from './work.js';

/** The longest that a page may take for one answer to anything. */
const REPLY_MS = 300_000;
/** A page reads files whole. */
const MAX_FILE_BYTES = 2 ** 31 - 1;

/** A page of a headless Chromium with engines in it. */
export class ChromiumPage {
  readonly #server: PageServer;
  readonly #browser: Browser;
  readonly #page: Page;
  readonly #model: PageModel;

  private constructor(server: PageServer, browser: Browser, page: Page, model: PageModel) {
    this.#server = server;
    this.#browser = browser;
    this.#page = page;
    this.#model = model;
  }

  /**
   * Rejects with `STET_ERR_BACKEND_UNAVAILABLE` where there is no Chromium that starts, with `STET_ERR_UNSUPPORTED` for a model
   * whose files are too large for a page.
   */
  static async open(modelPath: string): Promise<ChromiumPage> {
    const executablePath = chromiumPath();
    const { folder, files, model } = await pageModel(modelPath);
    const server = await PageServer.start(folder, files);
    let browser: Browser | undefined;
    try {
      browser = await launch(executablePath);
      const page = await browser.newPage();
      await page.goto(server.url);
      return new ChromiumPage(server, browser, page, model);
    } catch (error) {
      await browser?.close();
      await server.close();
      throw error;
    }
  }

  /** In words. Rejects with `STET_ERR_BACKEND_UNAVAILABLE` where the browser has no WebGPU. */
  async describeGpu(): Promise<string> {
    return this.#ask(this.#page.evaluate(() => (globalThis as unknown as StetMatrixPage).stetMatrix.describeGpu()));
  }

  /** Rejects with what the engine in the page does, or with `STET_ERR_BACKEND_FAILED` where the page itself fails. */
  async answer(backend: PageBackend, work: Work): Promise<Answers> {
    return this.#ask(
      this.#page.evaluate((ask) => (globalThis as unknown as StetMatrixPage).stetMatrix.answer(ask), {
        backend,
        model: this.#model,
        work,
      }),
    );
  }

  async close(): Promise<void> {
    await this.#browser.close();
    await this.#server.close();
  }

  async #ask<T>(asking: Promise<PageReply<T>>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer within ${REPLY_MS / 1000} s`)), REPLY_MS);
    });
    let reply: PageReply<T>;
    try {
      reply = await Promise.race([asking, late]);
    } catch (cause) {
      throw new StetError('STET_ERR_BACKEND_FAILED', `the page failed: ${messageOf(cause)}`, { cause });
    } finally {
      clearTimeout(timer);
      asking.catch(() => {});
    }
    if (reply.kind === 'error') throw new StetError(reply.code as StetErrorCode, reply.message);
    return reply.value;
  }
}

function chromiumPath(): string {
  let path: string | undefined;
  try {
    path = findChromium();
  } catch (cause) {
    unavailable(messageOf(cause), cause);
  }
  return path ?? unavailable('there is no Chromium, Chrome or Edge; set CHROMIUM_PATH or install chromium');
}

async function launch(executablePath: string): Promise<Browser> {
  const { chromium } = await import('playwright').catch((cause) =>
    unavailable('a browser is driven by playwright; run: npm install playwright', cause),
  );
  try {
    // An interrupted study ends its unit and closes the browser itself.
    return await chromium.launch({ executablePath, args: chromiumArgs(), handleSIGINT: false, handleSIGTERM: false });
  } catch (cause) {
    return unavailable(`${executablePath} does not start: ${messageOf(cause).split('\n', 1)[0]}`, cause);
  }
}

/** Where the files of a model are, and what a page must know to load it. */
async function pageModel(path: string): Promise<{ folder: string; files: readonly string[]; model: PageModel }> {
  const opened = await loadModelPath(path);
  await opened.close();
  const { name, storage } = opened;
  if (storage.bytes > MAX_FILE_BYTES) {
    const gib = (storage.bytes / 2 ** 30).toFixed(1);
    throw new StetError('STET_ERR_UNSUPPORTED', `the model has ${gib} GiB, and a page reads files whole, up to 2 GiB`);
  }
  const place = path === 'tales' ? fileURLToPath(talesFolder) : path;
  const folder = (await stat(place)).isDirectory() ? place : dirname(place);
  const { files } = storage;
  const layout = files.includes('config.json') ? 'folder' : 'gguf';
  return { folder, files, model: { name, layout, files: files.map((file) => [file, PageServer.modelUrl(file)]) } };
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

function unavailable(message: string, cause?: unknown): never {
  throw new StetError('STET_ERR_BACKEND_UNAVAILABLE', message, cause === undefined ? {} : { cause });
}
