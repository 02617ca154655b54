import type { GenerateEvent, GenerateRequest } from '@stet/engine';
import type { Browser, Page } from 'playwright';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isSkipped, launch, titled } from './support/browser.js';
import { openPlayground, type PlaygroundPage } from './support/playground-page.js';
import { go, type Script, scriptWorker } from './support/scripted-worker.js';
import { type ServedPage, servePage } from './support/served-page.js';
import { type Answer, answerInNode } from './support/tales-answers.js';

const REQUEST = {
  prompt: 'Once upon a time, there was a little girl named Lily',
  maxTokens: 8,
  temperature: 0.7,
  seed: 42,
  deterministic: true,
} as const satisfies GenerateRequest;
/** A GPU that is a CPU, on a machine that is busy. */
const SLOW_MS = 240_000;
/** A name that leads here without being secure in a browser's eyes, as a page on a plain web server is. */
const INSECURE_HOST = 'insecure.test';

describe.skipIf(isSkipped)(titled('the playground with an engine in the page'), () => {
  let served: ServedPage;
  let browser: Browser;
  let expected: Answer;
  const address = (query = '', host = '127.0.0.1') => `http://${host}:${served.port}/${query}`;

  beforeAll(async () => {
    [served, expected, browser] = await Promise.all([
      servePage(INSECURE_HOST),
      answerInNode(REQUEST),
      launch(`--host-resolver-rules=MAP ${INSECURE_HOST} 127.0.0.1`),
    ]);
  }, 120_000);

  afterAll(async () => {
    await browser?.close();
    await served?.[Symbol.asyncDispose]();
  });

  it('streams a deterministic answer on WebGPU, verified in windows: the hash of the reference, alone and under load', async () => {
    const playground = await openPlayground(browser, address('?backend=webgpu&policy=dvr'));
    const { page, text } = playground;
    await playground.waitForStatus(/^Ready/, SLOW_MS);
    expect(await text('info-backend')).toBe('webgpu');
    await expectAnswer(playground, expected);
    expect(Number(await text('figure-windows'))).toBeGreaterThan(0);
    expect((await shown(page)).candidates.length).toBeGreaterThan(2);
    await playground.fill({ maxTokens: 4 });
    await playground.chat.getByLabel(/random others/).fill('1');
    await playground.click('Run it twice');
    await playground.waitForStatus(/^Done\.$/, SLOW_MS);
    expect(await text('verdict')).toMatch(/^Equal, 4 tokens, hash [0-9a-f]{16}\.$/);
    const [alone, loaded] = [await text('twice-alone'), await text('twice-loaded')];
    expect(loaded).toBe(alone);
    expect(alone.length > 4 && expected.text.startsWith(alone), alone).toBe(true);
    expect(playground.complaints).toEqual([]);
    await playground.close();
  }, 600_000);

  describe('on the reference', () => {
    let playground: PlaygroundPage;

    beforeAll(async () => {
      playground = await openPlayground(browser, address('?backend=reference'), { colorScheme: 'light' });
      await playground.waitForStatus(/^Ready/);
    }, 120_000);

    afterAll(() => playground?.close());

    it('gives the same answer, and again when it is asked again', async () => {
      expect(await playground.text('info-backend')).toBe('reference');
      expect(await playground.page.locator('#loading').isVisible()).toBe(false);
      await expectAnswer(playground, expected);
      await playground.click('Again');
      await playground.waitForStatus(/^Done/);
      expect([await playground.answer(), await playground.text('figure-hash')]).toEqual([expected.text, expected.hash]);
    }, 120_000);

    it('goes on with the text where the model has no chat template', async () => {
      const before = await playground.chat.locator('[data-part="conversation"]').textContent();
      expect(before).toBe(REQUEST.prompt + expected.text);
      await playground.fill({ prompt: '', maxTokens: 2 });
      await playground.click('Generate');
      await playground.waitForStatus(/^Done: 2 tokens/);
      const longer = await answerInNode({ ...REQUEST, prompt: before!, maxTokens: 2 });
      expect([await playground.answer(), await playground.text('figure-hash')]).toEqual([longer.text, longer.hash]);
      await playground.click('Clear');
      expect(await playground.chat.locator('[data-part="conversation"]').textContent()).toBe('');
      expect(await playground.text('figure-hash')).toBe('–');
      expect(await playground.chat.getByLabel('Prompt', { exact: true }).inputValue()).toBe(REQUEST.prompt);
    }, 120_000);

    it('stops when told to, keeps what is final, and answers the next request', async () => {
      const { page } = playground;
      await playground.ask({ ...REQUEST, maxTokens: 900 });
      await page.waitForFunction(() => (document.querySelector('[data-part="answer"]')?.textContent ?? '').length > 10);
      await playground.click('Stop');
      await playground.waitForStatus(/^Stopped/);
      const stopped = await playground.answer();
      expect(stopped.length).toBeGreaterThan(10);
      expect(Number(await playground.text('figure-tokens'))).toBeLessThan(900);
      await page.waitForTimeout(300);
      expect(await playground.answer()).toBe(stopped);
      expect(await page.getByRole('button', { name: 'Stop' }).isDisabled()).toBe(true);
    }, 120_000);

    it('shows a refused request with its code, and gives it back to be mended', async () => {
      const prompt = 'a tale '.repeat(2000);
      await playground.ask({ ...REQUEST, prompt });
      await playground.chat.getByRole('alert').waitFor();
      expect(await playground.chat.locator('[data-part="failure-code"]').textContent()).toBe('STET_ERR_CONTEXT_LENGTH');
      expect(await playground.chat.getByLabel('Prompt', { exact: true }).inputValue()).toBe(prompt);
      expect(await playground.chat.getByRole('button', { name: 'Again' }).isDisabled()).toBe(true);
    }, 60_000);

    it('fits a phone without scrolling sideways, in light and dark', async () => {
      const { page } = playground;
      await page.setViewportSize({ width: 360, height: 740 });
      await playground.fill({ ...REQUEST, maxTokens: 3 });
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
    }, 120_000);

    it('says the same under another policy, and keeps the choice in the address', async () => {
      const { page } = playground;
      await page.getByLabel('Verification').selectOption('dvr');
      await page.locator('#info-policy').filter({ hasText: 'dvr' }).waitFor();
      expect(new URL(page.url()).search).toBe('?backend=reference&policy=dvr');
      await expectAnswer(playground, expected);
      expect(playground.complaints).toEqual([]);
    }, 120_000);
  });

  it('says what to do without WebGPU, and runs on the reference only when the user chooses it', async () => {
    const playground = await openPlayground(browser, address('', INSECURE_HOST));
    const { page, text } = playground;
    await page.locator('#failure').waitFor();
    expect(await failureOf(page)).toEqual({
      code: 'STET_ERR_BACKEND_UNAVAILABLE',
      message: expect.stringContaining('no WebGPU'),
      hint: expect.stringContaining('localhost'),
    });
    expect(await page.getByRole('button', { name: 'Generate' }).isDisabled()).toBe(true);
    await playground.click('Run on the reference instead');
    await playground.waitForStatus(/^Ready/);
    expect(await page.locator('#failure').isVisible()).toBe(false);
    expect(new URL(page.url()).searchParams.get('backend')).toBe('reference');
    await playground.ask({ ...REQUEST, maxTokens: 2 });
    await playground.waitForStatus(/^Done/);
    expect(expected.text.startsWith(await playground.answer())).toBe(true);
    expect(await text('figure-tokens')).toBe('2');
    await playground.close();
  }, 120_000);

  it('knows no backend that does not exist', async () => {
    const playground = await openPlayground(browser, address('?backend=magic'));
    await playground.page.locator('#failure').waitFor();
    expect(await failureOf(playground.page)).toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: 'There is no backend "magic": choose server, webgpu or reference.',
    });
    await playground.close();
  }, 60_000);

  it('strikes candidates out for a moment when they are rolled back', async () => {
    const playground = await openPlayground(browser, address(), {}, (page) => scriptWorker(page, [ROLLBACK]));
    const { page } = playground;
    const answer = page.locator('[data-part="answer"]');
    const parts = async () => ({
      answer: await answer.textContent(),
      candidates: await answer.locator('.candidate').textContent(),
      struck: await answer.locator('del').allTextContents(),
    });
    await playground.waitForStatus(/^Ready/);
    await playground.click('Generate');
    await answer.locator('.candidate').filter({ hasText: 'One dog' }).waitFor();
    expect(await parts()).toEqual({ answer: 'One dog', candidates: 'One dog', struck: [] });
    await go(page);
    await answer.locator('del').waitFor();
    expect(await parts()).toEqual({ answer: 'One day dog', candidates: '', struck: [' dog'] });
    await answer.locator('del').waitFor({ state: 'detached' });
    expect(await parts()).toEqual({ answer: 'One day', candidates: '', struck: [] });
    await playground.close();
  }, 60_000);

  it('marks in both texts where two answers to one request differ', async () => {
    // The three others of the second run come before it and end at once.
    const scripts = [answerOf([1, 2, 3], 'aa'), [], [], [], answerOf([1, 5, 3], 'bb')];
    const playground = await openPlayground(browser, address(), {}, (page) => scriptWorker(page, scripts));
    const { page, text } = playground;
    await playground.waitForStatus(/^Ready/);
    await playground.click('Run it twice');
    await playground.waitForStatus(/^Done\.$/);
    expect(await text('verdict')).toBe('Different from output token 1 on: " two" (2) first, " five" (5) second.');
    expect([await text('twice-alone'), await text('twice-loaded')]).toEqual([' one two three', ' one five three']);
    expect(await page.locator('#twice-section mark').allTextContents()).toEqual([' two', ' five']);
    await playground.close();
  }, 60_000);

  it('says when its engine cannot be loaded or breaks down, and loads it anew', async () => {
    const worker = '**/assets/worker-*.js';
    const playground = await openPlayground(browser, address('?backend=reference'), {}, async (page) => {
      await page.route(worker, (route) => route.abort());
    });
    const { page } = playground;
    await page.locator('#failure').waitFor();
    expect((await failureOf(page)).code).toBe('STET_ERR_BACKEND_FAILED');
    await page.unroute(worker);
    await scriptWorker(page, ['crash']);
    await playground.click('Try again');
    await playground.waitForStatus(/^Ready/);
    expect(await page.locator('#failure').isVisible()).toBe(false);
    await playground.click('Generate');
    await page.locator('#failure').waitFor();
    expect((await failureOf(page)).message).toContain('out of order');
    await page.unroute(worker);
    await scriptWorker(page, [answerOf([1], 'aa')]);
    await playground.click('Try again');
    await playground.waitForStatus(/^Ready/);
    await playground.click('Generate');
    await page.locator('[data-part="answer"]').filter({ hasText: 'one' }).waitFor();
    await playground.close();
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

const WORDS = ['zero', 'one', 'two', 'three', 'four', 'five'];

function answerOf(tokens: readonly number[], hash: string): Script {
  const texts = tokens.map((token) => ` ${WORDS[token]}`);
  const logprobs = tokens.map((token, index) => ({ token, text: texts[index]!, logprob: -1, top: [] }));
  return [[ACCEPTED, { type: 'commit', from: 0, tokens, text: texts.join(''), hash, logprobs }]];
}

/** Asks, watches the answer stream and compares it with the expected one. */
async function expectAnswer(playground: PlaygroundPage, expected: Answer): Promise<void> {
  const { page, text } = playground;
  expect(await text('info-fingerprint')).toBe(expected.receipt.fingerprint);
  await watch(page);
  await playground.ask(REQUEST);
  await playground.waitForStatus(/^Done/, SLOW_MS);
  const status = playground.chat.getByRole('status');
  expect(await status.textContent()).toBe(`Done: ${REQUEST.maxTokens} tokens, the most that was asked for.`);
  expect(await text('figure-hash')).toBe(expected.hash);
  expect(JSON.parse(await text('receipt'))).toEqual(expected.receipt);
  expect(await playground.answer()).toBe(expected.text);
  expect((await shown(page)).answers.length).toBeGreaterThan(2);
  expect(await text('figure-tokens')).toBe(String(REQUEST.maxTokens));
  expect(Number(await text('figure-rate'))).toBeGreaterThan(0);
  expect(await text('figure-first')).toMatch(/^[\d.]+ ms$/);
  expect(await text('figure-gaps')).toMatch(/^[\d.]+ \/ [\d.]+ ms$/);
  expect(await text('figure-seed')).toBe(String(REQUEST.seed));
}

async function failureOf(page: Page): Promise<{ code: string | null; message: string | null; hint: string | null }> {
  const part = (name: string) => page.locator(`#failure [data-part="failure-${name}"]`).textContent();
  return { code: await part('code'), message: await part('message'), hint: await part('hint') };
}

/** Different texts that were seen in the page. */
interface Shown {
  readonly answers: readonly string[];
  readonly candidates: readonly string[];
}

/** Notes in the page what the conversation says after every change. */
async function watch(page: Page): Promise<void> {
  await page.evaluate(() => {
    const conversation = document.querySelector('[data-part="conversation"]')!;
    const [answers, candidates] = [new Set<string>(), new Set<string>()];
    Object.assign(globalThis, { shown: () => ({ answers: [...answers], candidates: [...candidates] }) });
    new MutationObserver(() => {
      const answer = conversation.querySelector('[data-part="answer"]');
      answers.add(answer?.textContent ?? '');
      candidates.add(answer?.querySelector('.candidate')?.textContent ?? '');
    }).observe(conversation, { subtree: true, childList: true, characterData: true });
  });
}

function shown(page: Page): Promise<Shown> {
  return page.evaluate('shown()');
}
