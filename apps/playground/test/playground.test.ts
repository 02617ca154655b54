import { createEngine, type GenerateEvent, type GenerateRequest, type Receipt } from '@stet/engine';
import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { talesFolder, talesName } from '@stet/tales';
import { type Browser, chromium, type Page } from 'playwright';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chromiumArgs, findChromium } from '../../../scripts/webgpu/chromium.mjs';
import { isWebGpuRequired, whyNoBrowser } from '../../../scripts/webgpu/setup.mjs';
import { openPlayground, type PlaygroundPage } from './support/playground-page.js';
import { go, type Script, scriptWorker } from './support/scripted-worker.js';
import { type ServedPage, servePage } from './support/served-page.js';

const REQUEST = {
  prompt: 'Once upon a time, there was a little girl named Lily',
  maxTokens: 10,
  temperature: 0.7,
  seed: 42,
  deterministic: true,
} as const satisfies GenerateRequest;
/** A GPU that is a CPU, on a machine that is busy. */
const SLOW_MS = 240_000;
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
    [served, expected] = await Promise.all([servePage(INSECURE_HOST), answerInNode(REQUEST)]);
    browser = await launch();
  }, 120_000);

  afterAll(async () => {
    await browser?.close();
    await served?.[Symbol.asyncDispose]();
  });

  it('streams a deterministic answer on WebGPU, verified in windows: the hash of the reference, alone and in a crowd', async () => {
    const playground = await openPlayground(browser, address('?backend=webgpu&policy=dvr'));
    const { page, text } = playground;
    await playground.waitForStatus(/^Ready/, SLOW_MS);
    expect(await text('info-backend')).toBe('webgpu');
    await expectAnswer(playground, expected);
    expect(Number(await text('figure-windows'))).toBeGreaterThan(0);
    expect((await shown(page)).candidates.length).toBeGreaterThan(2);
    await playground.fill({ ...REQUEST, deterministic: false });
    await playground.click('Run it twice');
    await playground.waitForStatus(/^Done\.$/, SLOW_MS);
    for (const id of ['twice-alone', 'twice-crowd']) {
      expect(await text(`${id}-hash`)).toBe(expected.hash);
      expect(await text(id)).toBe(expected.text);
    }
    expect(await text('verdict')).toBe('The same hash: every token is equal.');
    expect(playground.complaints).toEqual([]);
    await page.context().close();
  }, 600_000);

  it('does the same on the reference, also under another policy, and keeps the choice in the address', async () => {
    const playground = await openPlayground(browser, address('?backend=reference'));
    const { page, text } = playground;
    await playground.waitForStatus(/^Ready/);
    expect(await text('info-backend')).toBe('reference');
    expect(await page.locator('#loading').isVisible()).toBe(false);
    await expectAnswer(playground, expected);
    await expectAnswer(playground, expected);
    await page.getByLabel('Verification').selectOption('dvr');
    await page.locator('#info-policy').filter({ hasText: 'dvr' }).waitFor();
    expect(new URL(page.url()).search).toBe('?backend=reference&policy=dvr');
    await expectAnswer(playground, expected);
    expect(playground.complaints).toEqual([]);
    await page.context().close();
  }, 200_000);

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

  it('strikes candidates out for a moment when they are rolled back', async () => {
    const playground = await openPlayground(browser, address(), {}, (page) => scriptWorker(page, [ROLLBACK]));
    const { page, text } = playground;
    const parts = async () => ({
      answer: await text('answer'),
      candidates: await page.locator('#answer .candidate').textContent(),
      struck: await page.locator('#answer del').allTextContents(),
    });
    await playground.waitForStatus(/^Ready/);
    await playground.click('Generate');
    await page.locator('#answer .candidate').filter({ hasText: 'One dog' }).waitFor();
    expect(await parts()).toEqual({ answer: 'One dog', candidates: 'One dog', struck: [] });
    await go(page);
    await page.locator('#answer del').waitFor();
    expect(await parts()).toEqual({ answer: 'One day dog', candidates: '', struck: [' dog'] });
    await page.locator('#answer del').waitFor({ state: 'detached' });
    expect(await parts()).toEqual({ answer: 'One day', candidates: '', struck: [] });
    await page.context().close();
  }, 60_000);

  it('marks where two answers to one request differ', async () => {
    // The three others of the second run come before it and end at once.
    const scripts = [answerOf([1, 2, 3], 'aa'), [], [], [], answerOf([1, 5, 3], 'bb')];
    const playground = await openPlayground(browser, address(), {}, (page) => scriptWorker(page, scripts));
    await playground.waitForStatus(/^Ready/);
    await playground.click('Run it twice');
    await playground.waitForStatus(/^Done\.$/);
    expect(await playground.text('verdict')).toBe('Different from output token 1 on.');
    await playground.page.context().close();
  }, 60_000);

  it('says when its engine cannot be loaded or breaks down, and loads it anew', async () => {
    const worker = '**/assets/worker-*.js';
    const playground = await openPlayground(browser, address('?backend=reference'), {}, async (page) => {
      await page.route(worker, (route) => route.abort());
    });
    const { page, text } = playground;
    await page.locator('#failure').waitFor();
    expect(await text('failure-code')).toBe('STET_ERR_BACKEND_FAILED');
    await page.unroute(worker);
    await scriptWorker(page, ['crash']);
    await playground.click('Try again');
    await playground.waitForStatus(/^Ready/);
    expect(await page.locator('#failure').isVisible()).toBe(false);
    await playground.click('Generate');
    await page.locator('#failure').waitFor();
    expect(await text('failure-message')).toContain('out of order');
    await page.unroute(worker);
    await playground.click('Try again');
    await page.locator('#info-device').filter({ hasText: 'JavaScript' }).waitFor();
    await page.context().close();
  }, 120_000);

  it('fits a phone without scrolling sideways, in light and dark', async () => {
    const viewport = { width: 360, height: 740 };
    const playground = await openPlayground(browser, address('?backend=reference'), { viewport, colorScheme: 'light' });
    const { page } = playground;
    await playground.waitForStatus(/^Ready/);
    await playground.fill(REQUEST);
    await playground.click('Run it twice');
    await playground.waitForStatus(/^Done\.$/);
    const look = () =>
      page.evaluate(() => ({
        width: document.documentElement.scrollWidth,
        paper: getComputedStyle(document.body).backgroundColor,
      }));
    expect(await look()).toEqual({ width: 360, paper: 'rgb(251, 250, 246)' });
    await page.emulateMedia({ colorScheme: 'dark' });
    expect(await look()).toEqual({ width: 360, paper: 'rgb(23, 22, 20)' });
    await page.context().close();
  }, 120_000);
});

const ACCEPTED = {
  type: 'accepted',
  fingerprint: 'stet1-0',
  seed: 1,
  promptTokens: 1,
} as GenerateEvent;

const ROLLBACK: Script = [
  [
    ACCEPTED,
    { type: 'provisional', from: 0, tokens: [1], text: 'One' },
    { type: 'provisional', from: 1, tokens: [2], text: ' dog' },
  ],
  [
    { type: 'rollback', to: 1 },
    { type: 'commit', from: 0, tokens: [1, 3], text: 'One day', hash: 'aa' },
  ],
];

function answerOf(tokens: readonly number[], hash: string): Script {
  return [[ACCEPTED, { type: 'commit', from: 0, tokens, text: tokens.join(' '), hash }]];
}

/** Asks, watches the answer stream and compares it with the expected one. */
async function expectAnswer(playground: PlaygroundPage, expected: Answer): Promise<void> {
  const { page, text } = playground;
  expect(await text('info-fingerprint')).toBe(expected.receipt.fingerprint);
  await playground.fill(REQUEST);
  await watch(page);
  await playground.click('Generate');
  await playground.waitForStatus(/^Done/, SLOW_MS);
  expect(await text('status')).toBe(`Done: ${REQUEST.maxTokens} tokens, the most that was asked for.`);
  expect(await text('figure-hash')).toBe(expected.hash);
  expect(JSON.parse(await text('receipt'))).toEqual(expected.receipt);
  expect(await text('answer')).toBe(expected.text);
  expect((await shown(page)).answers.length).toBeGreaterThan(2);
  expect(await text('figure-tokens')).toBe(String(REQUEST.maxTokens));
  expect(Number(await text('figure-rate'))).toBeGreaterThan(0);
  expect(await text('figure-first')).toMatch(/^[\d.]+ ms$/);
  expect(await text('figure-gaps')).toMatch(/^[\d.]+ \/ [\d.]+ ms$/);
  expect(await text('figure-seed')).toBe(String(REQUEST.seed));
}

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

/** Different texts that were seen in the page. */
interface Shown {
  readonly answers: readonly string[];
  readonly candidates: readonly string[];
}

/** Notes in the page what the answer says after every change. */
async function watch(page: Page): Promise<void> {
  await page.evaluate(() => {
    const answer = document.getElementById('answer')!;
    const answers = new Set<string>();
    const candidates = new Set<string>();
    Object.assign(globalThis, { shown: () => ({ answers: [...answers], candidates: [...candidates] }) });
    new MutationObserver(() => {
      answers.add(answer.textContent);
      candidates.add(answer.querySelector('.candidate')?.textContent ?? '');
    }).observe(answer, { subtree: true, childList: true, characterData: true });
  });
}

function shown(page: Page): Promise<Shown> {
  return page.evaluate('shown()');
}
