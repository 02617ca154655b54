import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { finished, isBuilt, type Outcome, startStet, stet, builtTitle as title } from './support/stet.js';

const folder = mkdtempSync(join(tmpdir(), 'stet-serve-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Slow, and the same everywhere. */
const REFERENCE = ['--backend', 'reference', '--kv-memory', '16', '--port', '0'];

interface Served {
  readonly child: ChildProcess;
  readonly outcome: Promise<Outcome>;
  readonly url: string;
}

async function serve(args: readonly string[], env: Record<string, string> = {}): Promise<Served> {
  const child = startStet(['serve', ...args], env);
  const outcome = finished(child);
  const listening = new Promise<string>((resolve) => {
    const find = (pattern: RegExp) => (text: unknown) => {
      const match = pattern.exec(String(text));
      if (match) resolve(match[1]!);
    };
    child.stdout!.on('data', find(/listening on (http:\S+)/));
    child.stderr!.on('data', find(/"url":"(http:[^"]+)"/));
  });
  const ended = outcome.then(({ stderr }) => Promise.reject(new Error(stderr)));
  const url = await Promise.race([listening, ended]);
  ended.catch(() => {});
  return { child, outcome, url };
}

interface Frame {
  readonly type: string;
  readonly tokens?: readonly number[];
}

/** A stream of so many tokens, once its first ones have come. */
async function streaming(url: string, maxTokens: number) {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/stream`, 'stet.v1');
  const frames: Frame[] = [];
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  socket.on('error', () => {});
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject);
    socket.once('open', () =>
      socket.send(JSON.stringify({ type: 'generate', id: 'a', prompt: 'CANARY Once', maxTokens, ignoreEos: true })),
    );
    socket.on('message', (data) => {
      frames.push(JSON.parse(String(data)) as Frame);
      if (frames.at(-1)!.type === 'commit') resolve();
    });
  });
  return { frames, closed };
}

describe.skipIf(!isBuilt)(`${title} serve`, { timeout: 120_000 }, () => {
  it('lets streams finish at SIGTERM, and ends with 0', async () => {
    const { child, outcome, url } = await serve([...REFERENCE, '--drain-ms', '60000', '--log-format', 'json']);
    const { frames, closed } = await streaming(url, 30);
    child.kill('SIGTERM');
    expect(await closed).toBe(1001);
    expect(frames.at(-1)!.type).toBe('done');
    expect(frames.flatMap(({ tokens = [] }) => tokens)).toHaveLength(30);
    const { code, stdout, stderr } = await outcome;
    expect(stdout).toBe('');
    const lines = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect([code, lines.map(({ msg }) => msg)]).toEqual([0, expect.arrayContaining(['draining', 'stream ended'])]);
    for (const line of lines) expect(line).toMatchObject({ level: 'info', time: expect.any(String) });
    expect(stderr).not.toContain('CANARY');
  });

  it('cuts streams off when the time to drain is over, and still ends with 0', async () => {
    const { child, outcome, url } = await serve([...REFERENCE, '--drain-ms', '50']);
    const { frames, closed } = await streaming(url, 900);
    child.kill('SIGTERM');
    expect(await closed).toBe(1012);
    expect(frames.at(-1)).toMatchObject({ type: 'error', code: 'STET_ERR_SHUTTING_DOWN' });
    expect((await outcome).code).toBe(0);
  });

  it('ends at once at the second signal', async () => {
    const { child, outcome, url } = await serve([...REFERENCE, '--drain-ms', '600000']);
    const { frames, closed } = await streaming(url, 900);
    child.kill('SIGTERM');
    await new Promise<void>((resolve) => {
      child.stderr!.on('data', (text) => String(text).includes('draining') && resolve());
    });
    child.kill('SIGTERM');
    expect((await outcome).code).toBe(130);
    expect(await closed).toBe(1006);
    expect(frames.some(({ type }) => type === 'done')).toBe(false);
  });

  it('takes its options from a file, from variables and from flags, and says so', async () => {
    const config = join(folder, 'stet.config.json');
    const kv = { memoryMiB: 16 };
    writeFileSync(config, JSON.stringify({ backend: 'cpu', logFormat: 'json', kv, server: { maxSockets: 1 } }));
    const env = { STET_CONFIG: config, STET_BACKEND: 'reference', STET_PORT: '1', STET_MAX_RUNNING: '2' };
    const { child, outcome, url } = await serve(['--port', '0'], env);
    const ready = (await (await fetch(`${url}/ready`)).json()) as object;
    expect(ready).toMatchObject({ status: 'ready', guarantee: 'portable', selfTest: 'passed', model: 'tales' });
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toMatch(/^stet_ready 1$/m);
    expect(metrics).toMatch(/^stet_memory_bytes\{use="kv"\} 1[56]\d{6}$/m);
    child.kill('SIGINT');
    const { code, stderr } = await outcome;
    expect(code).toBe(0);
    expect(JSON.parse(stderr.split('\n', 1)[0]!)).toMatchObject({
      port: '0 (flag)',
      backend: 'reference (environment)',
      'engine.maxRunning': '2 (environment)',
      'server.maxSockets': '1 (file)',
      'kv.memoryMiB': '16 (file)',
    });
  });

  it('has the playground at / on loopback, and not where that is not wanted', async () => {
    const { child, outcome, url } = await serve(REFERENCE);
    const page = await fetch(`${url}/`);
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const [, script] = /<script [^>]*src="\.\/(assets\/[^"]+\.js)"/.exec(await page.text())!;
    expect((await fetch(`${url}/${script}`)).status).toBe(200);
    child.kill('SIGTERM');
    expect((await outcome).stdout).toContain(`playground: ${url}/\n`);
    const without = await serve([...REFERENCE, '--no-playground']);
    expect((await fetch(`${without.url}/`)).status).toBe(404);
    without.child.kill('SIGTERM');
    expect((await without.outcome).stdout).not.toContain('playground');
  });

  it('prints its options and their schema without serving', async () => {
    const options = await stet(['serve', '--port', '7', '--print-config'], {
      STET_API_KEY: 'a-secret-of-24-characters',
    });
    expect(options).toMatchObject({ code: 0, stderr: '' });
    expect(options.stdout).not.toContain('a-secret');
    expect(JSON.parse(options.stdout)).toMatchObject({ port: { value: 7, from: 'flag' } });
    const schema = await stet(['serve', '--print-config-schema']);
    expect(JSON.parse(schema.stdout)).toMatchObject({ type: 'object', additionalProperties: false });
    const help = await stet(['serve', '--help']);
    expect(help).toMatchObject({ code: 0, stdout: expect.stringContaining('--max-detached-streams-per-key <n>') });
  });

  it('says in the chosen format why it cannot start', async () => {
    const args = ['serve', ...REFERENCE, '--host', '0.0.0.0'];
    const pretty = await stet(args);
    expect(pretty).toMatchObject({ code: 1, stdout: '' });
    expect(pretty.stderr).toMatch(/^error STET_ERR_UNSUPPORTED: host 0\.0\.0\.0.*\nhint: .+\n$/m);
    const json = await stet([...args, '--log-format', 'json']);
    const lines = json.stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect([json.code, lines.at(-1)]).toEqual([
      1,
      expect.objectContaining({
        level: 'error',
        hint: expect.any(String),
        err: expect.objectContaining({ code: 'STET_ERR_UNSUPPORTED' }),
      }),
    ]);
    const wrong = await stet(['serve', '--prot', '1']);
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("error USAGE: unknown option '--prot'") });
  });
});
