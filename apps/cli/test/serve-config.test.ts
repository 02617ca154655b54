import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultLimits } from '@stet/engine';
import { defaultServerLimits } from '@stet/server';
import { CommanderError } from 'commander';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { serveCommand } from '../src/serve-config/command.js';
import { configJsonSchema, parseConfig } from '../src/serve-config/config-file.js';
import type { OptionValue, ServeOption } from '../src/serve-config/option.js';
import { serveOptions } from '../src/serve-config/options.js';
import type { ServeConfig } from '../src/serve-config/serve-config.js';
import type { Setting } from '../src/serve-config/settings.js';

const folder = mkdtempSync(join(tmpdir(), 'stet-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// What the variables of whoever runs the tests say is their matter.
const names = [...serveOptions.map(({ env }) => env), 'STET_CONFIG', 'STET_API_KEY'];
beforeEach(() => {
  for (const name of names) vi.stubEnv(name, undefined);
});
afterEach(() => vi.unstubAllEnvs());

function fileOf(content: unknown): string {
  const path = join(folder, 'stet.config.json');
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

async function configured(...args: string[]): Promise<{ config: ServeConfig; settings: readonly Setting[] }> {
  let taken: { config: ServeConfig; settings: readonly Setting[] } | undefined;
  const command = serveCommand(async (config, settings) => {
    taken = { config, settings };
  });
  await command
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .parseAsync(args, { from: 'user' });
  return taken!;
}

/** What is printed by a run that serves nothing. */
async function printed(...args: string[]): Promise<string> {
  const log = vi.spyOn(console, 'log').mockImplementation(() => {});
  try {
    expect(await configured(...args)).toBeUndefined();
    return log.mock.calls.map(([text]) => text).join('\n');
  } finally {
    log.mockRestore();
  }
}

/** A value that is not the default, as the file and as a text have it. */
function otherValue(option: ServeOption): { value: OptionValue; text: string } {
  switch (option.kind) {
    case 'integer': {
      const value = option.default === option.max || option.min === 16 ? 32 : option.min + 1;
      return { value, text: String(value) };
    }
    case 'choice': {
      const value = option.choices.find((choice) => choice !== option.default)!;
      return { value, text: value };
    }
    case 'boolean':
      return { value: !option.default, text: String(!option.default) };
    case 'text':
      return { value: 'other', text: 'other' };
    case 'list':
      return { value: ['http://a.org', 'http://b.org'], text: 'http://a.org,http://b.org' };
  }
}

function flagOf(option: ServeOption): string[] {
  const { value, text } = otherValue(option);
  if (option.kind === 'boolean') return [value ? `--${option.flag}` : `--no-${option.flag}`];
  return [`--${option.flag}`, ...(option.kind === 'list' ? (value as string[]) : [text])];
}

function nested(path: string, value: unknown): object {
  const [first, second] = path.split('.') as [string, string?];
  return { [first]: second === undefined ? value : { [second]: value } };
}

function settingOf(settings: readonly Setting[], path: string): Pick<Setting, 'value' | 'from'> {
  const { value, from } = settings.find(({ option }) => option.path === path)!;
  return { value, from };
}

describe('the options of `stet serve`', () => {
  it('cover every limit of the engine and of the server, and none twice', async () => {
    const paths = serveOptions.map(({ path }) => path);
    for (const name of Object.keys(defaultLimits)) expect(paths).toContain(`engine.${name}`);
    for (const name of Object.keys(defaultServerLimits)) expect(paths).toContain(`server.${name}`);
    for (const list of [paths, serveOptions.map(({ flag }) => flag), serveOptions.map(({ env }) => env)])
      expect(new Set(list).size).toBe(list.length);
    const { config } = await configured();
    expect(config.engineLimits).toEqual(defaultLimits);
    expect(config.serverLimits).toEqual(defaultServerLimits);
    expect(config).toMatchObject({ host: '127.0.0.1', port: 8642, kv: { blockSize: 16 }, metrics: 'auto' });
  });

  it.each(serveOptions.map((option) => [option.path, option] as const))(
    'take %s from a flag, before a variable, before the file, before the default',
    async (path, option) => {
      const { value, text } = otherValue(option);
      const file = fileOf(nested(path, value));
      expect(settingOf((await configured()).settings, path)).toEqual({ value: option.default, from: 'default' });
      expect(settingOf((await configured('--config', file)).settings, path)).toEqual({ value, from: 'file' });
      vi.stubEnv(option.env, text);
      const fromBoth = (await configured('--config', file)).settings;
      expect(settingOf(fromBoth, path)).toEqual({ value, from: 'environment' });
      const fromAll = (await configured('--config', file, ...flagOf(option))).settings;
      expect(settingOf(fromAll, path)).toEqual({ value, from: 'flag' });
      vi.stubEnv(option.env, '');
      expect(settingOf((await configured()).settings, path).from).toBe('default');
    },
  );

  it.each([
    [[], true],
    [['--host', '::1'], true],
    [['--host', '0.0.0.0'], false],
    [['--host', '0.0.0.0', '--playground'], true],
    [['--no-playground'], false],
  ])('serve the playground on loopback unless they say otherwise: %j', async (args, playground) => {
    expect((await configured(...args)).config.playground).toBe(playground);
  });

  it('arrive where they are used', async () => {
    const file = fileOf({
      $schema: 'https://example.org/schema.json',
      keys: 'keys.json',
      packedCache: false,
      kv: { memoryMiB: 64, blockSize: 32 },
      engine: { maxRunning: 3 },
      server: { drainMs: 0, maxSockets: 7 },
    });
    vi.stubEnv('STET_CONFIG', file);
    vi.stubEnv('STET_THREADS', '3');
    const { config } = await configured('--allow-origin', 'http://a.org', 'http://b.org', '--draft');
    expect(config).toMatchObject({
      keys: 'keys.json',
      allowedOrigins: ['http://a.org', 'http://b.org'],
      choice: { threads: 3, packedCache: false, draft: true },
      kv: { memoryBytes: 64 * 2 ** 20, blockSize: 32 },
      engineLimits: { maxRunning: 3 },
      serverLimits: { drainMs: 0, maxSockets: 7 },
    });
  });

  it.each([
    ['{', 'the config is not JSON'],
    ['[]', 'Invalid input: expected object, received array'],
    [{ prot: 1 }, 'there is no option "prot"'],
    [{ server: { maxSocket: 1 } }, 'there is no option "server.maxSocket"'],
    [{ port: 70_000 }, /^port: Too big/],
    [{ port: '8642' }, /^port: Invalid input: expected (number|int), received string/],
    [{ server: { maxSockets: 0 } }, /^server\.maxSockets: Too small/],
    [{ backend: 'gpu' }, /^backend: Invalid option/],
    [{ allowOrigin: 'http://a.org' }, /^allowOrigin: Invalid input: expected array/],
    [{ apiKey: 'secret' }, 'there is no option "apiKey"'],
  ])('refuse the file %j', async (content, message) => {
    const file = fileOf(content);
    const error: unknown = await configured('--config', file).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'STET_ERR_BAD_CONFIG' });
    const said = (error as Error).message.replace(`${file}: `, '');
    if (typeof message === 'string') expect(said).toBe(message);
    else expect(said).toMatch(message);
  });

  it('refuse a file that is missing, a variable and a flag that cannot be', async () => {
    const failing = (...args: string[]) => configured(...args).catch((thrown: unknown) => thrown);
    expect(await failing('--config', join(folder, 'none'))).toMatchObject({
      code: 'STET_ERR_BAD_CONFIG',
      message: expect.stringMatching(/^cannot read the config .*none: ENOENT$/),
    });
    vi.stubEnv('STET_PORT', '8642x');
    expect(await failing('--port', '0')).toMatchObject({
      code: 'STET_ERR_BAD_CONFIG',
      message: 'STET_PORT is "8642x": It must be an integer from 0 to 65535.',
    });
    vi.stubEnv('STET_PORT', undefined);
    vi.stubEnv('STET_DRAFT', 'yes');
    expect(await failing()).toMatchObject({ message: expect.stringContaining('STET_DRAFT is "yes"') });
    vi.stubEnv('STET_DRAFT', undefined);
    for (const args of [['--port', '-1'], ['--format', 'q5'], ['--max-sockets', '0'], ['--prot', '1'], ['extra']])
      expect(await failing(...args)).toBeInstanceOf(CommanderError);
  });

  it('are printed with where each came from, and no secret', async () => {
    vi.stubEnv('STET_API_KEY', 'a-secret-of-24-characters');
    vi.stubEnv('STET_DRAIN_MS', '5');
    const file = fileOf({ model: 'other' });
    const text = await printed('--config', file, '--port', '1', '--print-config');
    const shown = JSON.parse(text) as Record<string, unknown>;
    expect(Object.keys(shown)).toEqual([...serveOptions.map(({ path }) => path), 'STET_API_KEY']);
    expect(shown).toMatchObject({
      port: { value: 1, from: 'flag' },
      'server.drainMs': { value: 5, from: 'environment' },
      model: { value: 'other', from: 'file' },
      'kv.blocks': { value: null, from: 'default' },
      STET_API_KEY: { value: '(hidden)', from: 'environment' },
    });
    expect(text).not.toContain('a-secret');
  });

  it('have a JSON Schema that allows what the program allows', async () => {
    const schema = JSON.parse(await printed('--print-config-schema')) as ReturnType<typeof configJsonSchema>;
    expect(schema).toEqual(JSON.parse(JSON.stringify(configJsonSchema())));
    expect(schema).toMatchObject({
      additionalProperties: false,
      properties: {
        port: { type: 'integer', minimum: 0, maximum: 65_535, description: expect.any(String) },
        server: { type: 'object', additionalProperties: false, properties: { drainMs: { minimum: 0 } } },
        backend: { enum: expect.arrayContaining(['webgpu']) },
      },
    });
  });

  it('are all in the page, as they are', () => {
    const page = readFileSync(new URL('../../../docs/CONFIGURATION.md', import.meta.url), 'utf8');
    const rows = page.split('\n').filter((line) => line.startsWith('| `'));
    expect(rows).toEqual(
      serveOptions.map(({ path, flag, env, default: value, help }) => {
        const shown = value === undefined ? '' : `\`${String(value)}\``;
        return `| \`${path}\` | \`--${flag}\` | \`${env}\` | ${shown} | ${help} |`;
      }),
    );
    const example = /```json\n(.*?)```/s.exec(page)![1]!;
    expect(parseConfig(example, 'the example').size).toBeGreaterThan(4);
  });
});
