import type { GenerateRequest } from '@stet/engine';
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright';

/** A tab with the page, driven as a user drives it. */
export interface PlaygroundPage {
  readonly page: Page;
  /** The chat in view. */
  readonly chat: Locator;
  /** What the browser complained about: errors, and what the content security policy stopped. */
  readonly complaints: readonly string[];
  /** Fills the fields of the chat in view; what is not given stays. */
  fill(request: GenerateRequest): Promise<void>;
  click(button: string): Promise<void>;
  /** Clears the chat in view if it has anything, and asks. */
  ask(request: GenerateRequest): Promise<void>;
  text(id: string): Promise<string>;
  /** The last answer of the chat in view. */
  answer(): Promise<string>;
  /** Waits until the status line of the chat in view says something like it. */
  waitForStatus(pattern: RegExp, timeoutMs?: number): Promise<void>;
  close(): Promise<void>;
}

const TIMEOUT_MS = 60_000;

/** `prepare` is called with the page before it has loaded anything. */
export async function openPlayground(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
  prepare: (page: Page) => Promise<void> = async () => {},
): Promise<PlaygroundPage> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('requestfailed', (request) => complaints.push(`${request.url()} ${request.failure()?.errorText}`));
  await prepare(page);
  await page.goto(url);
  const chat = page.locator('.chat:not([hidden])');
  const click = (button: string) => page.getByRole('button', { name: button, exact: true }).click();
  const fill = (request: GenerateRequest) => fillFields(chat, request);
  return {
    page,
    chat,
    complaints,
    fill,
    click,
    ask: async (request) => {
      if (await chat.getByRole('button', { name: 'Clear' }).isEnabled()) await click('Clear');
      await fill(request);
      await click('Generate');
    },
    text: async (id) => (await page.locator(`#${id}`).textContent()) ?? '',
    answer: () => chat.locator('[data-part="answer"]').last().evaluate(lastingText),
    waitForStatus: async (pattern, timeoutMs = TIMEOUT_MS) => {
      await chat.getByRole('status').filter({ hasText: pattern }).waitFor({ timeout: timeoutMs });
    },
    close: () => context.close(),
  };
}

async function fillFields(chat: Locator, request: GenerateRequest): Promise<void> {
  const fields: Record<string, string | number | undefined> = {
    Prompt: request.prompt,
    'Max tokens': request.maxTokens,
    Temperature: request.temperature,
    'Top-p': request.topP,
    Seed: request.seed,
    'Stop texts': typeof request.stop === 'string' ? request.stop : request.stop?.join('\n'),
  };
  for (const [label, value] of Object.entries(fields))
    if (value !== undefined) await chat.getByLabel(label, { exact: true }).fill(String(value));
  if (request.deterministic !== undefined) await chat.getByLabel('deterministic').setChecked(request.deterministic);
}

/** Without what is struck out for a moment. */
function lastingText(answer: Element): string {
  const copy = answer.cloneNode(true) as Element;
  for (const struck of copy.querySelectorAll('del')) struck.remove();
  return copy.textContent ?? '';
}
