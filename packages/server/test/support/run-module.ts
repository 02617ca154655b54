import { spawn } from 'node:child_process';

/** Runs a module in a process of its own, where packages are resolved as from this package. */
export function runModule(script: string): Promise<{ output: string; exitCode: number | null }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: new URL('../..', import.meta.url),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (data) => {
      output += data;
    });
    child.once('error', reject);
    child.once('close', (exitCode) => resolve({ output, exitCode }));
  });
}
