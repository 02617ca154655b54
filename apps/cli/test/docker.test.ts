import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { isBuilt, builtTitle as title } from './support/stet.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const dockerfile = read('Dockerfile');
const instructions = dockerfile
  .replaceAll(/\\\n/g, ' ')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));

/** Sources of every COPY from the checkout, in order, with its target. */
const copies = instructions.flatMap((line) => {
  const [word, ...rest] = line.split(/\s+/);
  return word === 'COPY' && !rest[0]!.startsWith('--from')
    ? [{ sources: rest.slice(0, -1), target: rest.at(-1)! }]
    : [];
});
const ignored = read('.dockerignore').trim().split('\n');

/** As Docker reads the file: a pattern matches a path and all that is below it. */
function isIgnored(path: string): boolean {
  const parts = path.split('/');
  return parts.some((_, index) => {
    const above = parts.slice(0, index + 1).join('/');
    return ignored.some((pattern) => matches(pattern, above));
  });
}

/** `**` and names alone, which is all that the file has. */
function matches(pattern: string, path: string): boolean {
  const plain = pattern
    .replaceAll('.', '\\.')
    .replaceAll('**/', '(?:.*/)?')
    .replaceAll(/(?<!\.)\*(?!\*)/g, '[^/]*');
  return new RegExp(`^${plain}$`).test(path);
}

describe('the Dockerfile', () => {
  it('copies what exists and is not left out of the context', () => {
    expect(copies.length).toBeGreaterThan(10);
    for (const { sources } of copies) {
      for (const source of sources) {
        expect(existsSync(join(root, source)), source).toBe(true);
        expect(isIgnored(source), source).toBe(false);
      }
    }
    // What `stet serve` shows is built there.
    expect(copies.flatMap(({ sources }) => sources)).toEqual(expect.arrayContaining(['apps/cli', 'apps/playground']));
    for (const path of [
      'node_modules/x',
      'packages/server/dist/index.js',
      'packages/backend-cpu/build/x',
      '.git/config',
    ])
      expect(isIgnored(path), path).toBe(true);
    expect(isIgnored('packages/backend-cpu/scripts/build-native.mjs')).toBe(false);
  });

  it('gives npm the manifest of every workspace that the lock file knows, at its place', () => {
    const lock = JSON.parse(read('package-lock.json')) as { packages: Record<string, { link?: boolean }> };
    const workspaces = Object.keys(lock.packages).filter((path) => path !== '' && !path.includes('node_modules'));
    const copied = copies.filter(({ sources }) => sources[0]!.endsWith('/package.json'));
    expect(copied.map(({ sources }) => dirname(sources[0]!)).sort()).toEqual(workspaces.sort());
    for (const { sources, target } of copied) expect(target).toBe(`${dirname(sources[0]!)}/`);
    const lines = instructions.map((line) => line.split(' ')[0] + line.slice(line.indexOf(' ')));
    const install = lines.findIndex((line) => line.includes('npm ci'));
    for (const { sources } of copied)
      expect(lines.findIndex((line) => line.includes(sources[0]!))).toBeLessThan(install);
  });

  it('runs as nobody special, without a shell, and is healthy when the server is ready', () => {
    const last = instructions.slice(instructions.findLastIndex((line) => line.startsWith('FROM ')));
    expect(last.find((line) => line.startsWith('USER '))).toBe('USER node');
    expect(last.find((line) => line.startsWith('ENTRYPOINT '))).toBe('ENTRYPOINT ["node", "apps/cli/dist/main.js"]');
    expect(last.find((line) => line.startsWith('CMD '))).toBe('CMD ["serve"]');
    expect(last.find((line) => line.startsWith('VOLUME '))).toBe('VOLUME /models');
    const health = last.find((line) => line.startsWith('HEALTHCHECK '))!;
    const [program, ...args] = JSON.parse(health.slice(health.indexOf('['))) as string[];
    expect([program, args[0]]).toEqual(['node', '-e']);
    // Nothing listens on that port.
    const run = () =>
      execFileSync(process.execPath, args, { env: { ...process.env, STET_PORT: '9' }, stdio: 'ignore' });
    expect(run).toThrow(/Command failed/);
  });
});

describe.skipIf(!isBuilt)(`${title} in its runtime tree`, { timeout: 120_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'stet-runtime-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const tree = join(folder, 'tree');
  const run = (args: readonly string[]) =>
    execFileSync(process.execPath, [join(tree, 'apps/cli/dist/main.js'), ...args], {
      cwd: folder,
      env: { ...process.env, NODE_PATH: '', XDG_CACHE_HOME: folder },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });

  it('runs without the checkout, and has nothing that only building needs', () => {
    execFileSync(process.execPath, [join(root, 'scripts/runtime-tree.mjs'), tree], { stdio: 'pipe' });
    expect(readdirSync(tree).sort()).toEqual(['LICENSE', 'apps', 'node_modules', 'package.json', 'packages']);
    const files = readdirSync(tree, { recursive: true, encoding: 'utf8' });
    for (const name of ['vitest', 'typescript', 'tsup', 'turbo', 'playwright', 'webgpu', 'openai'])
      expect(existsSync(join(tree, 'node_modules', name)), name).toBe(false);
    const own = files.filter((file) => !file.includes('node_modules'));
    expect(own.filter((file) => /\.(map|d\.ts|ts|cpp|o)$/.test(file))).toEqual([]);
    expect(existsSync(join(tree, 'apps/playground/dist/index.html'))).toBe(true);
    expect(run(['--version'])).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(run(['run', 'Once upon a time', '--max-tokens', '8', '--backend', 'reference'])).toMatch(/\w+/);
    expect(JSON.parse(run(['serve', '--print-config']))).toHaveProperty(['server.drainMs']);
    expect(() => run(['serve', '--host', '0.0.0.0', '--backend', 'reference'])).toThrow(/without API keys/);
  });

  it('is not put where something is already', () => {
    const again = () =>
      execFileSync(process.execPath, [join(root, 'scripts/runtime-tree.mjs'), root], { stdio: 'pipe' });
    expect(again).toThrow(/must be empty/);
  });
});
