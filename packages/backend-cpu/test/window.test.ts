import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serialize } from 'node:v8';
import type { Batch, Plan } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { IsaName } from '../src/addon.js';
import { createCpuBackend } from '../src/index.js';
import { largeModel, largeSizes, withWindow } from './support/long-step.js';
import { isas, withoutAddon } from './support/machine.js';
import { rawLoad } from './support/raw-load.js';

const script = new URL('./support/raw-backend.mjs', import.meta.url);
/** The window of the first row begins in the middle of a chunk of 64 positions, at position 290 of block 18. */
const windowSize = 11;
const firstPosition = 300;
const firstBlock = 18;
/** So far away that nothing is mapped there. */
const absent = 2 ** 30;

if (withoutAddon !== undefined) it.skip(`windows are not tested here (${withoutAddon})`, () => {});

describe.each(isas)('a window on %s', (isa) => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'stet-window-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each([1, 33])('of a step of %i rows reads no block before it', async (rowCount) => {
    const plan = withWindow(largeModel().plan, windowSize);
    const child = await runApart(folder, isa, plan, lateBatch(rowCount, absent));
    expect({ signal: child.signal, status: child.status }).toEqual({ signal: null, status: 0 });
    const logits = new Float32Array(new Uint8Array(Buffer.from(child.stdout.trim(), 'hex')).buffer);

    const backend = await createCpuBackend({ isa })({ plan, weights: largeModel().weights, ...largeSizes });
    const { canonical } = await backend.forward({ canonical: lateBatch(rowCount) });
    await backend.close();
    expectEqualBits(logits, canonical!.logits, 'without the blocks before the window');
  });

  it('would be seen to read one', async () => {
    const child = await runApart(folder, isa, largeModel().plan, lateBatch(1, absent));
    expect(child.signal).toBe('SIGSEGV');
  });
});

/** In a process of its own, with a batch that `forward` would refuse. */
async function runApart(folder: string, isa: IsaName, plan: Plan, batch: Batch) {
  const file = join(folder, 'load');
  writeFileSync(file, serialize(await rawLoad(batch, isa, plan)));
  return spawnSync(process.execPath, [script.pathname, file, 'print'], {
    encoding: 'utf8',
    timeout: 30_000,
    killSignal: 'SIGKILL',
  });
}

/** Rows in the middle of a sequence; where `before` is given, it stands for every block before the window. */
function lateBatch(rowCount: number, before?: number): Batch {
  const blockCount = Math.ceil((firstPosition + rowCount) / largeSizes.blockSize);
  return {
    tokens: Int32Array.from({ length: rowCount }, (_, row) => (row * 37) % 1024),
    positions: Int32Array.from({ length: rowCount }, (_, row) => firstPosition + row),
    rowStarts: Int32Array.of(0, rowCount),
    blockStarts: Int32Array.of(0),
    blocks: Int32Array.from({ length: blockCount }, (_, i) => (i < firstBlock ? (before ?? 1 + i) : 1 + i)),
    outputRows: Int32Array.of(rowCount - 1),
    outputKinds: Uint8Array.of(1),
  };
}
