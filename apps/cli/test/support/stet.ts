import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

/** The tests of the program run what was built. */
export const isBuilt = existsSync(main);
export const builtTitle = isBuilt ? 'stet' : 'stet (skipped: not built, run `npm run build`)';

/** The program keeps packed weights, but not those of tests in the cache of whoever runs them. */
const cacheFolder = mkdtempSync(join(tmpdir(), 'stet-cache-'));
process.on('exit', () => rmSync(cacheFolder, { recursive: true, force: true }));

export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function startStet(args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
  return spawn(process.execPath, [main, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, XDG_CACHE_HOME: cacheFolder, ...env },
  });
}

export function finished(child: ChildProcess): Promise<Outcome> {
  let stdout = '';
  let stderr = '';
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, stdout, stderr })));
}

export function stet(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Outcome> {
  return finished(startStet(args, env));
}
