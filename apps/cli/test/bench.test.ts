import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { bench } from '../src/commands/bench.js';
import { isBuilt, stet } from './support/stet.js';

const isBenchBuilt = isBuilt && existsSync(new URL('../../../bench/dist/index.js', import.meta.url));

describe('the bench command', () => {
  afterEach(() => {
    process.exitCode = undefined;
  });

  it('gives its arguments to the bench and takes its exit status', async () => {
    const main = vi.fn(async () => 130);
    const load = vi.fn(async () => ({ main }));
    await bench(['forward', '--quick'], load);
    expect(load).toHaveBeenCalledExactlyOnceWith('@stet/bench');
    expect(main).toHaveBeenCalledExactlyOnceWith(['forward', '--quick'], 'stet bench');
    expect(process.exitCode).toBe(130);
  });

  it('says what to install where the bench is missing', async () => {
    const cause = Object.assign(new Error("Cannot find package '@stet/bench'\nstack"), {
      code: 'ERR_MODULE_NOT_FOUND',
    });
    await expect(bench(['quick'], () => Promise.reject(cause))).rejects.toMatchObject({
      code: 'STET_ERR_NOT_INSTALLED',
      message: expect.stringMatching(/npm install @stet\/bench \(Cannot find package '@stet\/bench'\)$/),
      hint: expect.stringContaining('Install'),
      cause,
    });
  });

  it('hides no error of the bench itself', async () => {
    const cause = new TypeError('a bug');
    await expect(bench(['quick'], () => Promise.reject(cause))).rejects.toBe(cause);
  });
});

describe.skipIf(!isBenchBuilt)(
  isBenchBuilt ? 'stet bench' : 'stet bench (skipped: not built, run `npm run build`)',
  () => {
    it('lists scenarios with --help', async () => {
      const { code, stdout, stderr } = await stet(['bench', '--help']);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toMatch(/^stet bench NAME/);
      expect(stdout).toContain('\n  forward ');
    });

    it('ends with 2 where the arguments mean nothing, options before the name included', async () => {
      const { code, stdout, stderr } = await stet(['bench', '--quick', 'nonsense']);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toMatch(/^there is no nonsense\nusage: stet bench quick\|/);
    });

    it('ends with 1 and a code where a file is no file of results', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'stet-bench-'));
      try {
        writeFileSync(join(folder, 'other.json'), '{}');
        const { code, stderr } = await stet(['bench', 'report', join(folder, 'other.json')]);
        expect(code).toBe(1);
        expect(stderr).toMatch(/^error STET_ERR_BAD_RESULTS: .*other\.json is no file of results/);
        expect(stderr).toContain('\nhint: Give a results.json');
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  },
);
