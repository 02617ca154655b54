import type { GenerateEvent } from '@stet/engine';
import type { Page } from 'playwright';
import type { SourceInfo } from '../../src/source/answer-source.js';
import type { FromWorker } from '../../src/source/messages.js';

/** Events of one request, in groups; a group is sent when the test says `go`, the first at once. `crash` is the worker's end. */
export type Script = readonly (readonly GenerateEvent[])[] | 'crash';

const INFO: SourceInfo = {
  model: 'scripted',
  backend: 'webgpu',
  device: 'none',
  fingerprint: 'stet1-0',
  guarantee: 'portable',
  policy: 'dvr(4)',
  contextLength: 1024,
  chatTemplate: 'none',
};

/**
 * Puts an engine in place of the page's worker that says what the scripts say, one for each request, and then ends.
 * Requests without a script end at once.
 */
export async function scriptWorker(
  page: Page,
  scripts: readonly Script[],
  info: Partial<SourceInfo> = {},
): Promise<void> {
  const body = `
    const scripts = ${JSON.stringify(scripts)};
    const groups = [];
    const post = (message) => self.postMessage(message);
    const next = () => {
      const { id, events } = groups.shift();
      for (const event of events) post({ kind: 'event', id, event });
      if (!groups.some((group) => group.id === id)) post({ kind: 'ended', id });
    };
    self.onmessage = ({ data }) => {
      if (data.kind === 'open') post(${JSON.stringify({ kind: 'opened', info: { ...INFO, ...info } } satisfies FromWorker)});
      if (data.kind !== 'generate') return;
      const script = scripts[data.id];
      if (script === 'crash') throw new Error('out of order');
      if (!script?.length) return post({ kind: 'ended', id: data.id });
      for (const events of script) groups.push({ id: data.id, events });
      if (groups.length === script.length) next();
    };
    new BroadcastChannel('script').onmessage = next;
  `;
  await page.route('**/assets/worker-*.js', (route) => route.fulfill({ contentType: 'text/javascript', body }));
}

/** Lets the scripted worker send its next group. */
export async function go(page: Page): Promise<void> {
  await page.evaluate(() => {
    const channel = new BroadcastChannel('script');
    channel.postMessage('go');
    channel.close();
  });
}
