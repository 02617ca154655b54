import { readFileSync } from 'node:fs';
import { errorCodes } from '@stet/backend';
import { defaultServerLimits } from '@stet/server';
import { closeCodes, generateFrameSchema } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import { serve } from './support/harness.js';
import { runModule } from './support/run-module.js';
import { ScriptedEngine } from './support/scripted-engine.js';

const page = readFileSync(new URL('../../../docs/PROTOCOL.md', import.meta.url), 'utf8');

/** The JavaScript that follows the marker of the six lines. */
function sixLines(): string {
  const match = /<!-- six lines[^>]*-->\n```js\n(.*?)```/s.exec(page);
  if (match === null) throw new Error('the page has no six lines');
  return match[1]!;
}

describe('the page about the protocol', () => {
  it('shows six lines with plain ws that stream the answer', async () => {
    const { server, idle } = await serve();
    const lines = sixLines();
    expect(lines.trimEnd().split('\n')).toHaveLength(6);
    expect(lines).toContain('ws://127.0.0.1:8642/');
    const script = lines.replace('127.0.0.1:8642', new URL(server.url).host);
    const { output, exitCode } = await runModule(script);
    let expected = '';
    for await (const event of new ScriptedEngine().generate({ prompt: 'Once upon a time', maxTokens: 64 }))
      if (event.type === 'commit') expected += event.text;
    expect({ output, exitCode }).toEqual({ output: expected, exitCode: 0 });
    await idle();
  });

  it('shows six lines that end when the server refuses', async () => {
    const { server } = await serve({ contextLength: 8 });
    const script = sixLines().replace('127.0.0.1:8642', new URL(server.url).host);
    expect(await runModule(script)).toEqual({ output: '', exitCode: 0 });
  });

  it('names every field, limit and close code, and no code that does not exist', () => {
    for (const field of Object.keys(generateFrameSchema.shape)) expect(page).toContain(`\`${field}\``);
    for (const limit of Object.keys(defaultServerLimits)) expect(page).toContain(`\`${limit}\``);
    for (const code of Object.values(closeCodes)) expect(page).toContain(String(code));
    const named = new Set(page.match(/STET_ERR_[A-Z_]+/g));
    for (const code of named) expect(Object.keys(errorCodes)).toContain(code);
  });
});
