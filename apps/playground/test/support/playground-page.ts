import type { GenerateRequest } from '@stet/engine';
import type { Browser, BrowserContextOptions, Page } from 'playwright';

/** A tab with the page, driven as a user drives it. */
export interface PlaygroundPage {
  readonly page: Page;
  /** What the browser complained about: errors, and what the content security policy stopped. */
  readonly complaints: readonly string[];
  fill(request: GenerateRequest): Promise<void>;
  click(button: string): Promise<void>;
  text(id: string): Promise<string>;
  /** Waits until the status line says something like it. */
  waitForStatus(pattern: RegExp, timeoutMs?: number): Promise<void>;
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
  const text = async (id: string) => (await page.locator(`#${id}`).textContent()) ?? '';
  return {
    page,
    complaints,
    text,
    fill: async ({ prompt, maxTokens, temperature, seed, deterministic }) => {
      await page.getByLabel('Prompt').fill(String(prompt));
      await page.getByLabel('Max tokens').fill(String(maxTokens));
      await page.getByLabel('Temperature').fill(String(temperature));
      await page.getByLabel('Seed', { exact: true }).fill(seed === undefined ? '' : String(seed));
      await page.getByLabel('deterministic').setChecked(deterministic === true);
    },
    click: (button) => page.getByRole('button', { name: button, exact: true }).click(),
    waitForStatus: async (pattern, timeoutMs = TIMEOUT_MS) => {
      await page.getByRole('status').filter({ hasText: pattern }).waitFor({ timeout: timeoutMs });
    },
  };
}
