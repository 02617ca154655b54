import { createEngine, type GenerateEvent, type GenerateRequest, type Receipt } from '@stet/engine';
import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { talesFolder, talesName } from '@stet/tales';
import { type Browser, chromium, type Page } from 'playwright';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chromiumArgs, findChromium } from '../../../scripts/webgpu/chromium.mjs';
import { isWebGpuRequired, whyNoBrowser } from '../../../scripts/webgpu/setup.mjs';
import { openPlayground } from './support/playground-page.js';
import { type ServedPage, servePage } from './support/served-page.js';

const REQUEST = {
  prompt: 'Once upon a time, there was a little girl named Lily',
  maxTokens: 20,
  temperature: 0.7,
  seed: 42,
  deterministic: true,
} as const satisfies GenerateRequest;
/** A name that leads here without being secure in a browser's eyes, as a page on a plain web server is. */
const INSECURE_HOST = 'insecure.test';

const missing = whyNoBrowser();
const title = missing === undefined ? 'the playground in a browser' : `the playground (skipped: ${missing})`;

describe.skipIf(missing !== undefined && !isWebGpuRequired())(title, () => {
  let served: ServedPage;
  let browser: Browser;
  let expected: Answer;
  const address = (query = '', host = '127.0.0.1') => `http://${host}:${served.port}/${query}`;

  beforeAll(async () => {
    [served, expected] = await Promise.all([servePage(), answerInNode(REQUEST)]);
    browser = await launch();
  }, 120_000);

  afterAll(async () => {
    await browser?.close();
    await served?.[Symbol.asyncDispose]();
  });

  describe.each(['webgpu', 'reference'])('on the backend %s', (backend) => {
    it('streams a deterministic answer of the same hash as the reference in Node, every time', async () => {
      const playground = await openPlayground(browser, address(`?backend=${backend}`));
      const { page, click, text } = playground;
      await playground.waitForStatus(/^Ready/, 120_000);
      expect(await text('info-backend')).toBe(backend);
      expect(await text('info-fingerprint')).toBe(expected.receipt.fingerprint);
      expect(await page.locator('#loading').isVisible()).toBe(false);
      for (const run of ['first', 'second']) {
        await playground.fill(REQUEST);
        await watchLengths(playground.page);
        await click('Generate');
        await playground.waitForStatus(/^Done/);
        expect(await text('status')).toBe('Done: 20 tokens, the most that was asked for.');
        expect([run, await text('figure-hash')]).toEqual([run, expected.hash]);
        expect(JSON.parse(await text('receipt'))).toEqual(expected.receipt);
        expect(await text('answer')).toBe(expected.text);
        expect((await lengthsSeen(page)).length).toBeGreaterThan(2);
      }
      expect(await text('figure-tokens')).toBe('20');
      expect(Number(await text('figure-rate'))).toBeGreaterThan(0);
      expect(await text('figure-first')).toMatch(/^[\d.]+ ms$/);
      expect(await text('figure-gaps')).toMatch(/^[\d.]+ \/ [\d.]+ ms$/);
      expect(await text('figure-seed')).toBe('42');
      expect(playground.complaints).toEqual([]);
      await page.context().close();
    }, 180_000);
  });

  it('verifies in windows when told to, with the same hash, and counts them', async () => {
    const playground = await openPlayground(browser, address('?backend=webgpu&policy=dvr'));
    await playground.waitForStatus(/^Ready/, 120_000);
    await playground.fill(REQUEST);
    await watchCandidates(playground.page);
    await playground.click('Generate');
    await playground.waitForStatus(/^Done/);
    expect(await playground.text('figure-hash')).toBe(expected.hash);
    expect(Number(await playground.text('figure-windows'))).toBeGreaterThan(0);
    expect(await playground.page.evaluate('candidatesSeen')).toBe(true);
    await playground.page.context().close();
  }, 180_000);

  it('runs it twice, alone and with others, and finds the hashes equal', async () => {
    const playground = await openPlayground(browser, address('?backend=webgpu'));
    await playground.waitForStatus(/^Ready/, 120_000);
    await playground.fill({ ...REQUEST, deterministic: false });
    await playground.click('Run it twice');
    await playground.waitForStatus(/^Done/, 120_000);
    for (const id of ['twice-alone', 'twice-crowd']) {
      expect(await playground.text(`${id}-hash`)).toBe(expected.hash);
      expect(await playground.text(id)).toBe(expected.text);
    }
    expect(await playground.text('verdict')).toBe('The same hash: every token is equal.');
    expect(playground.complaints).toEqual([]);
    await playground.page.context().close();
  }, 240_000);

  it('stops when told to, keeps what is final, and answers the next request', async () => {
    const playground = await openPlayground(browser, address('?backend=reference'));
    const { page, text } = playground;
    await playground.waitForStatus(/^Ready/);
    await playground.fill({ ...REQUEST, maxTokens: 900 });
    await playground.click('Generate');
    await page.waitForFunction(() => (document.getElementById('answer')?.textContent ?? '').length > 10);
    await playground.click('Stop');
    await playground.waitForStatus(/^Stopped/);
    const stopped = await text('answer');
    expect(stopped.length).toBeGreaterThan(10);
    expect(Number(await text('figure-tokens'))).toBeLessThan(900);
    await page.waitForTimeout(300);
    expect(await text('answer')).toBe(stopped);
    expect(await page.getByRole('button', { name: 'Stop' }).isDisabled()).toBe(true);
    await playground.fill(REQUEST);
    await playground.click('Generate');
    await playground.waitForStatus(/^Done/);
    expect(await text('figure-hash')).toBe(expected.hash);
    await page.context().close();
  }, 120_000);

  it('changes the backend when another one is chosen, and keeps it in the address', async () => {
    const playground = await openPlayground(browser, address('?backend=reference&policy=direct'));
    await playground.waitForStatus(/^Ready/);
    expect(await playground.text('info-policy')).toBe('direct');
    await playground.page.getByLabel('Backend').selectOption('webgpu');
    await playground.page.locator('#info-backend').filter({ hasText: 'webgpu' }).waitFor({ timeout: 120_000 });
    expect(new URL(playground.page.url()).search).toBe('?backend=webgpu&policy=direct');
    await playground.page.context().close();
  }, 180_000);

  it('says what to do without WebGPU, and runs on the reference only when the user chooses it', async () => {
    await using own = await launch(`--host-resolver-rules=MAP ${INSECURE_HOST} 127.0.0.1`);
    const playground = await openPlayground(own, address('', INSECURE_HOST));
    const { page, text } = playground;
    await page.locator('#failure').waitFor();
    expect(await text('failure-code')).toBe('STET_ERR_BACKEND_UNAVAILABLE');
    expect(await text('failure-message')).toContain('no WebGPU');
    expect(await text('failure-hint')).toContain('localhost');
    expect(await page.getByRole('button', { name: 'Generate' }).isDisabled()).toBe(true);
    await playground.click('Run on the reference instead');
    await playground.waitForStatus(/^Ready/);
    expect(await page.locator('#failure').isVisible()).toBe(false);
    expect(new URL(page.url()).searchParams.get('backend')).toBe('reference');
    await playground.fill(REQUEST);
    await playground.click('Generate');
    await playground.waitForStatus(/^Done/);
    expect(await text('figure-hash')).toBe(expected.hash);
  }, 120_000);

  it('shows a refused request with its code, and a backend that does not exist', async () => {
    const playground = await openPlayground(browser, address('?backend=reference'));
    await playground.waitForStatus(/^Ready/);
    await playground.fill({ ...REQUEST, prompt: 'a tale '.repeat(2000) });
    await playground.click('Generate');
    await playground.page.locator('#request-failure').waitFor();
    expect(await playground.text('request-failure-code')).toBe('STET_ERR_CONTEXT_LENGTH');
    await playground.page.goto(address('?backend=magic'));
    await playground.page.locator('#failure').waitFor();
    expect(await playground.text('failure-code')).toBe('STET_ERR_UNSUPPORTED');
    expect(await playground.text('failure-message')).toBe('There is no backend "magic": choose webgpu or reference.');
    await playground.page.context().close();
  }, 120_000);

  it('fits a phone in light and dark without scrolling sideways', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const options = { viewport: { width: 360, height: 740 }, colorScheme };
      const playground = await openPlayground(browser, address('?backend=reference'), options);
      await playground.waitForStatus(/^Ready/);
      await playground.fill(REQUEST);
      await playground.click('Generate');
      await playground.waitForStatus(/^Done/);
      const widths = await playground.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      expect(widths).toEqual([360, 360]);
      await playground.page.context().close();
    }
  }, 120_000);
});

async function launch(...args: string[]): Promise<Browser> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error(missing);
  return chromium.launch({ executablePath, args: [...chromiumArgs(), ...args] });
}

interface Answer {
  readonly text: string;
  readonly hash: string;
  readonly receipt: Receipt;
}

/** What the definition of the numerics says, out of the browser. */
async function answerInNode(request: GenerateRequest): Promise<Answer> {
  const model = loadModelFolder(talesFolder, { name: talesName });
  await using engine = await createEngine({ model, backend: createReferenceBackend });
  const events: GenerateEvent[] = [];
  for await (const event of engine.generate(request)) events.push(event);
  const commits = events.filter((event) => event.type === 'commit');
  const done = events.at(-1);
  if (done?.type !== 'done' || !done.receipt) throw new Error('a deterministic answer has a receipt');
  return {
    text: commits.map((commit) => commit.text).join(''),
    hash: commits.at(-1)?.hash ?? '',
    receipt: done.receipt,
  };
}

/** Notes in the page how long the answer is after every change. */
async function watchLengths(page: Page): Promise<void> {
  await page.evaluate(() => {
    const answer = document.getElementById('answer')!;
    const seen = new Set<number>();
    Object.assign(globalThis, { lengthsSeen: seen });
    new MutationObserver(() => seen.add(answer.textContent.length)).observe(answer, {
      subtree: true,
      childList: true,
      characterData: true,
    });
  });
}

function lengthsSeen(page: Page): Promise<number[]> {
  return page.evaluate('[...lengthsSeen]');
}

/** Notes in the page whether candidates were ever shown. */
async function watchCandidates(page: Page): Promise<void> {
  await page.evaluate(() => {
    const answer = document.getElementById('answer')!;
    Object.assign(globalThis, { candidatesSeen: false });
    new MutationObserver(() => {
      if ((answer.querySelector('.candidate')?.textContent ?? '') !== '')
        Object.assign(globalThis, { candidatesSeen: true });
    }).observe(answer, { subtree: true, childList: true, characterData: true });
  });
}
