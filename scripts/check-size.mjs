// No source file over 500 lines. The list of exceptions is empty and stays so.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

const limit = 500;
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => existsSync(file) && /\.(ts|tsx|mts|mjs|cpp|h|cu|cuh|wgsl)$/.test(file));
let failed = false;
for (const file of files) {
  const lines = readFileSync(file, 'utf8').split('\n').length - 1;
  if (lines > limit) {
    console.error(`${file}: ${lines} lines, at most ${limit} are allowed`);
    failed = true;
  }
}
process.exit(failed ? 1 : 0);
