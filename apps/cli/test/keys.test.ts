import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ApiKey, newApiKey } from '@stet/server';
import { afterAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { readServerKeys, reloadKeysOnHangup } from '../src/server-keys.js';
import { finished, isBuilt, startStet, stet, builtTitle as title } from './support/stet.js';

const folder = mkdtempSync(join(tmpdir(), 'stet-keys-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const [alice, bob] = [newApiKey(), newApiKey()];
const entries = [
  { name: 'alice', sha256: alice.sha256, limits: { maxStreams: 2 } },
  { name: 'bob', key: bob.key },
];

function fileOf(name: string, content: unknown): string {
  const path = join(folder, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

describe('the keys of `stet serve`', () => {
  it('come from a file, from the environment, or from both', async () => {
    const file = fileOf('keys.json', { keys: entries });
    expect(await readServerKeys({})).toBeUndefined();
    expect(await readServerKeys({ file })).toEqual(entries);
    const apiKey = 'environment-'.padEnd(32, 'e');
    expect(await readServerKeys({ apiKey })).toEqual([{ name: 'environment', key: apiKey }]);
    expect(await readServerKeys({ file, apiKey })).toHaveLength(3);
  });

  it('say where they are not in order, and show none', async () => {
    const cases = [
      [{ file: join(folder, 'none.json') }, /^cannot read the keys in .*none\.json: ENOENT$/],
      [{ file: fileOf('text.json', `{${bob.key}`) }, /text\.json: the keys are not JSON$/],
      [{ file: fileOf('bad.json', { keys: [{ key: bob.key }] }) }, /bad\.json: keys\[0\]\.name: expected string$/],
      [{ apiKey: bob.key.slice(0, 20) }, /^STET_API_KEY: keys\[0\]\.key: expected at least 24 characters$/],
    ] as const;
    for (const [sources, message] of cases) {
      const error = await readServerKeys(sources).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'STET_ERR_BAD_CONFIG', message: expect.stringMatching(message) });
      expect(String((error as Error).stack)).not.toContain(bob.key.slice(0, 20));
    }
  });

  it('are read again at a hangup, and stay as they are when the file is not in order', async () => {
    const file = fileOf('reload.json', { keys: entries });
    const taken: string[][] = [];
    const lines: string[] = [];
    const server = { replaceKeys: (keys: readonly ApiKey[]) => void taken.push(keys.map(({ name }) => name)) };
    const hangup = reloadKeysOnHangup(server, { file }, (line) => lines.push(line));
    const reloaded = async () => {
      const seen = lines.length;
      process.emit('SIGHUP');
      await expect.poll(() => lines.length, { timeout: 10_000 }).toBe(seen + 1);
      return lines.at(-1);
    };
    try {
      expect(await reloaded()).toBe('keys reloaded: 2');
      fileOf('reload.json', { keys: entries.slice(1) });
      expect(await reloaded()).toBe('keys reloaded: 1');
      fileOf('reload.json', { keys: [{ ...entries[1], name: '' }] });
      expect(await reloaded()).toMatch(/^keys not reloaded, the old ones stay: .*keys\[0\]\.name: /);
      expect(taken).toEqual([['alice', 'bob'], ['bob']]);
    } finally {
      hangup.dispose();
    }
    expect(process.listenerCount('SIGHUP')).toBe(0);
    expect(lines.join()).not.toContain(bob.key);
  });
});

describe.skipIf(!isBuilt)(title, () => {
  it('makes a key, shown once, whose entry the server takes', async () => {
    const { code, stdout, stderr } = await stet(['keys', 'new', 'carol']);
    const [key, entry, ...rest] = stdout.split('\n');
    expect([code, rest]).toEqual([0, ['']]);
    expect(JSON.parse(entry!)).toEqual({ name: 'carol', sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(stderr).not.toContain(key);
    const bad = await stet(['keys', 'new', 'two words']);
    expect(bad).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('keys[0].name: expected letters'),
    });
  });

  it('serves whoever has a key, on any host, and drops at a hangup whoever has none any more', async () => {
    const keysFile = fileOf('serve.json', { keys: entries });
    const options = ['--backend', 'reference', '--kv-memory', '16', '--host', '0.0.0.0', '--port', '0'];
    const child = startStet(['serve', ...options], { STET_KEYS_FILE: keysFile });
    const outcome = finished(child);
    const listening = new Promise<string>((resolve) => {
      child.stdout!.on('data', (text) => resolve(/http:\/\/0\.0\.0\.0:(\d+)/.exec(String(text))![1]!));
    });
    const ended = outcome.then(({ stderr }) => Promise.reject(new Error(stderr)));
    const port = await Promise.race([listening, ended]);
    ended.catch(() => {});
    const connect = async (key: string) => {
      const headers = { Authorization: `Bearer ${key}` };
      const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/stream`, 'stet.v1', { headers });
      await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
      return socket;
    };
    await expect(connect('nobody')).rejects.toThrow('401');
    await (await connect(alice.key)).close();
    const revoked = await connect(bob.key);
    const closed = new Promise((resolve) => revoked.once('close', resolve));
    fileOf('serve.json', { keys: entries.slice(0, 1) });
    child.kill('SIGHUP');
    expect(await closed).toBe(1008);
    child.kill('SIGTERM');
    const { code, stderr, stdout } = await outcome;
    expect(code).toBe(0);
    expect(stderr).toMatch(/keys: 2, read again at SIGHUP\..*keys reloaded: 1\n/s);
    expect(stderr + stdout).not.toContain(bob.key);
  });
});
