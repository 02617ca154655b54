import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpuFeatures } from '@stet/backend-cpu';
import { afterAll, describe, expect, it } from 'vitest';
import { packedCacheFolder } from '../src/packed-cache.js';
import { builtTitle, isBuilt, stet } from './support/stet.js';

const cpu = cpuFeatures();
const onCpu = cpu.available ? '' : ` (skipped: ${cpu.reason})`;
const cache = mkdtempSync(join(tmpdir(), 'stet-packed-cli-'));
afterAll(() => rmSync(cache, { recursive: true, force: true }));
const env = { XDG_CACHE_HOME: cache };
const folder = join(cache, 'stet', 'packed');
const STORY = ['run', 'Once upon a time', '--max-tokens', '20', '--deterministic', '--seed', '1', '--stats'];

function row(stderr: string, name: string): string | undefined {
  return new RegExp(`^${name} +(.+)$`, 'm').exec(stderr)?.[1];
}

describe('packedCacheFolder', () => {
  it('is where caches of the user are', () => {
    expect(packedCacheFolder({ XDG_CACHE_HOME: '/caches' })).toBe('/caches/stet/packed');
    expect(packedCacheFolder({})).toBe(join(homedir(), '.cache/stet/packed'));
  });
});

describe.skipIf(!isBuilt || !cpu.available)(`packed weights of ${builtTitle}${onCpu}`, () => {
  it('are written at the first start and read at the second, with the same answer, and inspect shows them', async () => {
    const off = await stet([...STORY, '--no-packed-cache'], env);
    expect(row(off.stderr, 'packed')).toBe('off');
    expect(readdirSync(cache)).toEqual([]);
    const first = await stet(STORY, env);
    const [name] = readdirSync(folder);
    const path = join(folder, name!);
    expect(row(first.stderr, 'packed')).toMatch(/^written [\d.]+ MiB to /);
    expect(row(first.stderr, 'packed')).toContain(path);
    const second = await stet(STORY, env);
    expect(row(second.stderr, 'packed')).toMatch(/^read [\d.]+ MiB of /);
    for (const outcome of [first, second]) {
      expect(outcome.stdout).toBe(off.stdout);
      expect(row(outcome.stderr, 'hash')).toBe(row(off.stderr, 'hash'));
    }
    const inspected = await stet(['inspect', 'tales', '--json'], env);
    const report = JSON.parse(inspected.stdout) as { auto: { packed?: unknown }; formats: { packed?: unknown }[] };
    const packed = { path, bytes: statSync(path).size };
    // All matrices of the embedded model are bf16 by themselves.
    expect(report.auto.packed).toEqual(packed);
    expect(report.formats.map((each) => each.packed)).toEqual([packed, undefined, undefined]);
    expect((await stet(['inspect', 'tales'], env)).stdout).toContain(`MiB in ${path}`);
  });

  it('are not kept, with a note and the same answer, where the cache cannot be written', async () => {
    const file = join(cache, 'file');
    writeFileSync(file, '');
    const { code, stdout, stderr } = await stet(STORY, { XDG_CACHE_HOME: file });
    expect(code).toBe(0);
    expect(stdout).toBe((await stet([...STORY, '--no-packed-cache'], env)).stdout);
    expect(stderr).toMatch(/^note: packed weights are not kept: .*ENOTDIR.*--no-packed-cache/m);
  });
});
