import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import { createEngine, dvr, type GenerateRequest, type StetEngine } from '@stet/engine';
import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { createServer, newApiKey, type ServerOptions, type StetServer } from '@stet/server';
import { talesFolder, talesName } from '@stet/tales';
import type { Browser, Page } from 'playwright';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Relay } from '../../../packages/client/test/support/relay.js';
import { isSkipped, launch, titled } from './support/browser.js';
import { gatedEngine } from './support/gated-engine.js';
import { openPlayground, type PlaygroundPage } from './support/playground-page.js';
import { type BuiltPage, buildPage } from './support/served-page.js';

const REQUEST = {
  prompt: 'The king of the small island was sad, because',
  maxTokens: 40,
  temperature: 0.7,
  topP: 0.9,
  seed: 7,
  deterministic: true,
} as const satisfies GenerateRequest;
/** Longer than a closed gate lets through. */
const LONG = { ...REQUEST, maxTokens: 120, temperature: 1, topP: 1 } as const satisfies GenerateRequest;

const cpu = cpuFeatures();
const backend = cpu.available ? createCpuBackend({ threads: 1 }) : createReferenceBackend;

describe.skipIf(isSkipped)(titled('the playground with a server'), { timeout: 240_000 }, () => {
  let built: BuiltPage;
  let browser: Browser;
  /** One that goes on with texts, and one that takes messages. */
  let engines: Record<'text' | 'chat', StetEngine>;
  let server: StetServer;
  const servers: StetServer[] = [];

  const serve = async (options: Partial<ServerOptions> = {}) => {
    const limits = { drainMs: 0 };
    const made = await createServer({ engine: engines.text, port: 0, pages: built.folder, limits, ...options });
    servers.push(made);
    return made;
  };
  const answerOf = async (request: GenerateRequest, engine: StetEngine = engines.text) => {
    const [tokens, answer] = [[] as number[], { text: '', hash: '' }];
    for await (const event of engine.generate(request)) {
      if (event.type !== 'commit') continue;
      tokens.push(...event.tokens);
      answer.text += event.text;
      answer.hash = event.hash;
    }
    return { ...answer, tokenCount: tokens.length };
  };

  beforeAll(async () => {
    const load = () => loadModelFolder(talesFolder, { name: talesName, format: 'bf16' });
    const render = ({ messages }: { messages: readonly { role: string; content: unknown }[] }) =>
      `${messages.map(({ role, content }) => (role === 'assistant' ? content : ` ${content}`)).join('')} `;
    const common = { backend, policy: dvr({ windowTokens: 6 }), kv: { blockCount: 800 } } as const;
    const withTemplate = { ...(await load()), chatTemplate: { sources: new Map(), render } };
    const [text, chat] = await Promise.all([
      createEngine({ ...common, model: load() }),
      createEngine({ ...common, model: withTemplate }),
    ]);
    engines = { text, chat };
    [built, browser] = await Promise.all([buildPage(), launch()]);
    server = await serve();
  }, 120_000);

  afterAll(async () => {
    await browser?.close();
    for (const one of servers) await one.close();
    await Promise.all(Object.values(engines ?? {}).map((engine) => engine.close()));
    await built?.[Symbol.asyncDispose]();
  });

  it('asks the server that it comes from, and shows what it is', async () => {
    const playground = await openPlayground(browser, server.url);
    const { page, text } = playground;
    await playground.waitForStatus(/^Ready/);
    expect(await page.getByLabel('Backend').inputValue()).toBe('server');
    expect(await page.getByLabel('Server', { exact: true }).inputValue()).toBe(`${server.url}/`);
    expect(await text('link')).toBe('Connected.');
    expect(await text('info-place')).toBe(`${server.url}/`);
    expect(await text('info-fingerprint')).toBe(engines.text.info.fingerprint);
    expect(new URL(page.url()).searchParams.get('server')).toBe(`${server.url}/`);
    const expected = await answerOf(REQUEST);
    await playground.ask(REQUEST);
    await playground.waitForStatus(/^Done/);
    expect([await playground.answer(), await text('figure-hash')]).toEqual([expected.text, expected.hash]);
    expect(JSON.parse(await text('receipt'))).toMatchObject({ outputHash: expected.hash, seed: REQUEST.seed });
    const stopped = { ...REQUEST, stop: [expected.text.slice(10, 14)] };
    await playground.ask(stopped);
    await playground.waitForStatus(/^Done: \d+ tokens, the model or a stop text/);
    expect(await playground.answer()).toBe((await answerOf(stopped)).text);
    expect(playground.complaints).toEqual([]);
    await playground.close();
  });

  it('streams several chats at once over one socket, each with its own stop and figures', async () => {
    const gate = gatedEngine(engines.text);
    const { url } = await serve({ engine: gate });
    const sockets: string[] = [];
    const playground = await openPlayground(browser, url, {}, async (page) => {
      page.on('websocket', (socket) => sockets.push(socket.url()));
    });
    const { page, text } = playground;
    await playground.waitForStatus(/^Ready/);
    const seeds = [11, 12, 13];
    for (const [index, seed] of seeds.entries()) {
      if (index > 0) await playground.click('New chat');
      await playground.fill({ ...LONG, seed });
      await playground.click('Generate');
      await waitForAnswer(playground);
    }
    expect(await page.locator('[data-running="true"]').count()).toBe(3);
    await playground.click('Stop');
    await playground.waitForStatus(/^Stopped/);
    expect(await page.locator('[data-running="true"]').count()).toBe(2);
    gate.open();
    const [first, second, third] = await Promise.all(seeds.map((seed) => answerOf({ ...LONG, seed })));
    const partial = await playground.answer();
    expect(third!.text.startsWith(partial) && partial.length < third!.text.length, partial).toBe(true);
    for (const [title, expected] of [
      ['Chat 2', second!],
      ['Chat 1', first!],
    ] as const) {
      await page.getByRole('tab', { name: title }).click();
      await playground.waitForStatus(/^Done/);
      expect([await playground.answer(), await text('figure-hash')]).toEqual([expected.text, expected.hash]);
      expect(await text('figure-tokens')).toBe(String(expected.tokenCount));
    }
    await page.keyboard.press('ArrowLeft');
    expect(await page.getByRole('tab', { selected: true }).textContent()).toMatch(/^Chat 3/);
    await page.getByRole('button', { name: 'Close Chat 3' }).click();
    expect(await page.getByRole('tab').allTextContents()).toEqual([
      `Chat 1 · ${first!.tokenCount}`,
      `Chat 2 · ${second!.tokenCount}`,
    ]);
    expect(sockets).toEqual([`${url.replace('http', 'ws')}/v1/stream`]);
    expect(playground.complaints).toEqual([]);
    await playground.close();
  });

  it('compares a request alone with the same request under load, deterministic and ordinary', async () => {
    const playground = await openPlayground(browser, server.url);
    const { page, text } = playground;
    await playground.waitForStatus(/^Ready/);
    await playground.fill(REQUEST);
    await playground.chat.getByLabel(/random others/).fill('8');
    await playground.click('Run it twice');
    await playground.waitForStatus(/^Done\.$/);
    expect(await text('twice-loaded-title')).toBe('Beside 8 others');
    const expected = await answerOf(REQUEST);
    expect(await text('verdict')).toBe(`Equal, ${expected.tokenCount} tokens, hash ${expected.hash.slice(0, 16)}.`);
    expect([await text('twice-alone'), await text('twice-loaded')]).toEqual([expected.text, expected.text]);
    await playground.fill({ deterministic: false });
    await playground.chat.getByLabel(/random others/).fill('0');
    await playground.click('Run it twice');
    await playground.waitForStatus(/^Done\.$/);
    expect(await text('twice-request')).toMatch(/^The ordinary request of Chat 1/);
    // What an ordinary request gives is nobody's promise; what is shown of it fits together.
    const marks = await page.locator('#twice-section mark').count();
    const isEqual = (await text('twice-alone-hash')) === (await text('twice-loaded-hash'));
    expect([await text('verdict'), marks]).toEqual([
      expect.stringMatching(isEqual ? /^Equal, / : /^Different from output token \d+ on: /),
      isEqual ? 0 : 2,
    ]);
    expect(engines.text.stats()).toMatchObject({ running: 0, waiting: 0 });
    expect(playground.complaints).toEqual([]);
    await playground.close();
  });

  it('goes on where it was when the connection is lost, and says so', async () => {
    const gate = gatedEngine(engines.text);
    const { url } = await serve({ engine: gate });
    const relay = await Relay.to(Number(new URL(url).port));
    try {
      const playground = await openPlayground(browser, relay.url.replace('ws', 'http'));
      await playground.waitForStatus(/^Ready/);
      const states = await watchText(playground.page, 'link');
      await playground.ask(LONG);
      await waitForAnswer(playground);
      expect(relay.cut()).toBeGreaterThan(0);
      await playground.page.locator('#link').filter({ hasText: 'Connected again' }).waitFor();
      gate.open();
      await playground.waitForStatus(/^Done/);
      const expected = await answerOf(LONG);
      expect([await playground.answer(), await playground.text('figure-hash')]).toEqual([expected.text, expected.hash]);
      const shown = await states();
      expect(shown.at(-1)).toBe('Connected again: one answer goes on.');
      expect(
        shown.some((text) => text.startsWith('Reconnecting in ') && text.includes('connection')),
        shown.join(),
      ).toBe(true);
      await playground.close();
    } finally {
      relay.close();
    }
  });

  it('holds a conversation where the model has a chat template', async () => {
    const { url } = await serve({ engine: engines.chat });
    const playground = await openPlayground(browser, url);
    const { chat, text } = playground;
    await playground.waitForStatus(/^Ready/);
    await chat.getByLabel('System prompt').fill('A tale of the sea.');
    await playground.fill({ ...REQUEST, prompt: undefined as never });
    const messages = [{ role: 'system', content: 'A tale of the sea.' }];
    for (const content of ['There was a boat.', 'Then came a storm.']) {
      await chat.getByLabel('Message').fill(content);
      await playground.click('Generate');
      await playground.waitForStatus(/^Done/);
      messages.push({ role: 'user', content });
      const { prompt: _, ...parameters } = REQUEST;
      const expected = await answerOf({ ...parameters, messages }, engines.chat);
      expect([await playground.answer(), await text('figure-hash')]).toEqual([expected.text, expected.hash]);
      messages.push({ role: 'assistant', content: expected.text });
    }
    expect(await chat.locator('[data-part="conversation"] p').allTextContents()).toEqual(
      messages.slice(1).map(({ content }) => content),
    );
    await playground.click('Generate');
    expect(await chat.getByLabel('Message').evaluate((field: HTMLTextAreaElement) => field.validationMessage)).toBe(
      'There is nothing to answer yet.',
    );
    expect(playground.complaints).toEqual([]);
    await playground.close();
  });

  it('asks for a key where the server wants one, and keeps it to itself', async () => {
    const { key, sha256 } = newApiKey();
    const { url } = await serve({ keys: [{ name: 'alice', sha256 }] });
    const playground = await openPlayground(browser, url);
    const { page } = playground;
    const failure = page.locator('#failure');
    const code = failure.locator('[data-part="failure-code"]');
    await failure.waitFor();
    expect(await code.textContent()).toBe('STET_ERR_UNAUTHORIZED');
    const field = page.getByLabel('Key', { exact: true });
    expect(await field.evaluate((element) => element === document.activeElement)).toBe(true);
    await field.fill(`${key}x`);
    const answered = page.waitForResponse(`${url}/v1/tickets`);
    await field.press('Enter');
    expect((await answered).status()).toBe(401);
    await failure.waitFor();
    expect(await failure.locator('[data-part="failure-hint"]').textContent()).toBe(
      'Enter a key of this server, then connect again.',
    );
    await field.fill(key);
    await playground.click('Connect');
    await playground.waitForStatus(/^Ready/);
    expect(await failure.isVisible()).toBe(false);
    await playground.ask({ ...REQUEST, maxTokens: 3 });
    await playground.waitForStatus(/^Done: 3 tokens/);
    const kept = await page.evaluate(() =>
      JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }]),
    );
    expect(kept).not.toContain(key);
    // It goes to no other server.
    await page.getByLabel('Server', { exact: true }).fill(server.url);
    expect(await field.inputValue()).toBe('');
    await playground.click('Connect');
    await playground.waitForStatus(/^Ready/);
    expect(await playground.text('info-place')).toBe(`${server.url}/`);
    await playground.close();
  });

  it('says with code and hint what is wrong with an address, a server and a request', async () => {
    const playground = await openPlayground(browser, server.url);
    const { page } = playground;
    await playground.waitForStatus(/^Ready/);
    const failure = page.locator('#failure');
    const failed = async () => [
      await failure.locator('[data-part="failure-code"]').textContent(),
      await failure.locator('[data-part="failure-message"]').textContent(),
    ];
    for (const [address, code, message] of [
      ['ftp://127.0.0.1', 'STET_ERR_UNSUPPORTED', '"ftp://127.0.0.1" is no address of a server, such as'],
      ['127.0.0.1:1', 'STET_ERR_CONNECTION', 'http://127.0.0.1:1 cannot be reached, or takes no page of'],
    ] as const) {
      await page.getByLabel('Server', { exact: true }).fill(address);
      await playground.click('Connect');
      await failure.locator('code').filter({ hasText: code }).waitFor();
      expect((await failed())[1]).toMatch(new RegExp(message.replaceAll(/[.()]/g, '\\$&'), 'i'));
      expect(await playground.chat.getByRole('button', { name: 'Generate' }).isDisabled()).toBe(true);
    }
    await page.getByLabel('Server', { exact: true }).fill(server.url.replace('http', 'ws'));
    await playground.click('Connect');
    await playground.waitForStatus(/^Ready/);
    await playground.ask({ ...REQUEST, prompt: 'a tale '.repeat(2000) });
    const refused = playground.chat.getByRole('alert');
    await refused.waitFor();
    expect(await refused.locator('[data-part="failure-code"]').textContent()).toBe('STET_ERR_CONTEXT_LENGTH');
    expect(await refused.locator('[data-part="failure-hint"]').textContent()).toBe(
      'Shorten the prompt or ask for fewer tokens.',
    );
    await playground.close();
  });
});

/** Until the chat in view has some text that is final. */
async function waitForAnswer({ chat }: PlaygroundPage): Promise<void> {
  await chat
    .locator('[data-part="answer"]')
    .filter({ hasText: /\S.{40}/s })
    .waitFor();
}

/** Notes every text of an element; the function that comes back tells them in order. */
async function watchText(page: Page, id: string): Promise<() => Promise<string[]>> {
  await page.evaluate((name) => {
    const element = document.getElementById(name)!;
    const texts = [element.textContent];
    Object.assign(globalThis, { texts: () => texts });
    new MutationObserver(() => texts.push(element.textContent)).observe(element, { childList: true });
  }, id);
  return () => page.evaluate('texts()');
}
