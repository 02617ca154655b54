import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serialize } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { expectEqualBits } from '@stet/backend/conformance';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCpuBackend, liveBytes } from '../src/index.js';
import { largeModel, largeSizes, promptBatch } from './support/long-step.js';
import { withoutAddon } from './support/machine.js';
import { type RawLoad, rawLoad } from './support/raw-load.js';

const script = new URL('./support/raw-backend.mjs', import.meta.url);
/** Scalar kernels need a good second for them. */
const rowCount = 400;

describe.skipIf(withoutAddon)('the addon in workers and at the end of a process', () => {
  let load: RawLoad;
  let folder: string;
  let file: string;

  beforeAll(async () => {
    load = await rawLoad(promptBatch(rowCount));
    folder = mkdtempSync(join(tmpdir(), 'stet-cpu-'));
    file = join(folder, 'load');
    writeFileSync(file, serialize(load));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each([
    ['leave-open', ['open']],
    ['leave-two-open', ['open']],
    ['leave-running', ['running', 'finished']],
    ['exit-running', ['running']],
    ['exit-finished', ['running']],
  ])('a process ends cleanly in mode %s', async (mode, lines) => {
    const child = spawn(process.execPath, [script.pathname, file, mode], {
      stdio: ['ignore', 'pipe', 'pipe'],
      // One that hangs is to fail the test, not to outlive it.
      timeout: 30_000,
      killSignal: 'SIGKILL',
    });
    let output = '';
    child.stdout.on('data', (chunk) => (output += chunk));
    child.stderr.on('data', (chunk) => (output += chunk));
    const [code, signal] = await once(child, 'close');
    expect({ code, signal, lines: output.trim().split('\n') }).toEqual({ code: 0, signal: null, lines });
  });

  it('gives two workers and the main thread the same bits at once, and nothing is left', async () => {
    const backend = await createCpuBackend({ isa: 'scalar', threads: 2 })({ ...largeModel(), ...largeSizes });
    const workers = [0, 1].map(() => new Worker(script, { workerData: { load, mode: 'close' } }));
    const answers = workers.map(async (worker) => {
      const exited = once(worker, 'exit');
      const [logits] = (await once(worker, 'message')) as [Float32Array];
      await exited;
      return logits;
    });
    const { canonical } = await backend.forward({ canonical: promptBatch(rowCount) });
    for (const logits of await Promise.all(answers)) expectEqualBits(logits, canonical!.logits, 'a worker');
    await backend.close();
    expect(liveBytes()).toBe(0);
  });

  it('survives a worker that is terminated during a forward, and frees its memory', async () => {
    const worker = new Worker(script, { workerData: { load, mode: 'leave-running' } });
    expect(await once(worker, 'message')).toEqual(['running']);
    expect(liveBytes()).toBeGreaterThan(0);
    await worker.terminate();
    expect(liveBytes()).toBe(0);
  });

  it.each(['leave-open', 'leave-two-open', 'leave-running', 'exit-running', 'exit-finished'])(
    'frees the memory of a worker that ends in mode %s',
    async (mode) => {
      const worker = new Worker(script, { workerData: { load, mode } });
      const [code] = await once(worker, 'exit');
      expect({ code, liveBytes: liveBytes() }).toEqual({ code: 0, liveBytes: 0 });
    },
  );
});
