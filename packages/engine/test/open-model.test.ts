import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { cpuFeatures, createCpuBackend, liveBytes } from '@stet/backend-cpu';
import type { LoadedModel } from '@stet/model';
import { loadModelPath } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { talesFolder } from '@stet/tales';
import { describe, expect, it } from 'vitest';
import { createEngine, type LoadProgress, portableFingerprint } from '../src/index.js';
import { readAll } from './helpers.js';

const cpu = cpuFeatures();
const hasProc = existsSync('/proc/self/fd');
const skipped = cpu.available ? (hasProc ? '' : ' (skipped: no /proc)') : ` (skipped: ${cpu.reason})`;
const kv = { blockCount: 16 };

function openModelFiles(): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(talesFolder.pathname);
    } catch {
      return false; // The descriptor of the listing itself.
    }
  }).length;
}

describe('createEngine with a path', () => {
  it('opens a folder, its address and the embedded model by name, and has the fingerprint of the model', async () => {
    const model = await loadModelPath('tales');
    const expected = portableFingerprint(model);
    await model.close();
    for (const path of ['tales', talesFolder, talesFolder.pathname]) {
      await using engine = await createEngine({ model: path, backend: createReferenceBackend, kv });
      expect(engine.info.fingerprint).toBe(expected);
    }
    await using q8 = await createEngine({ model: 'tales', format: 'q8', backend: createReferenceBackend, kv });
    expect(q8.info.fingerprint).not.toBe(expected);
    const answer = await readAll(q8.generate({ prompt: 'Once upon a time', maxTokens: 4 }));
    expect(answer.tokens.length).toBe(4);
  });

  it('refuses a format or a context for a model that is loaded, and closes it', async () => {
    for (const option of [{ format: 'q8' }, { contextLength: 8 }] as const) {
      const model = await loadModelPath('tales');
      let closed = 0;
      const watched: LoadedModel = {
        ...model,
        close: () => {
          closed++;
          return model.close();
        },
      };
      await expect(createEngine({ model: watched, backend: createReferenceBackend, ...option })).rejects.toMatchObject({
        code: 'STET_ERR_UNSUPPORTED',
        message: expect.stringContaining('given by its path'),
      });
      expect(closed).toBe(1);
    }
  });

  it('tells what it reads and then what it loads, without going back', async () => {
    const told: LoadProgress[] = [];
    await using _engine = await createEngine({
      ...{ model: 'tales', backend: createReferenceBackend, kv },
      onProgress: (progress) => told.push(progress),
    });
    const phases = [...new Set(told.map(({ phase }) => phase))];
    expect(phases).toEqual(['files', 'weights']);
    for (const phase of phases) {
      const of = told.filter((progress) => progress.phase === phase);
      expect(of.map(({ done }) => done)).toEqual(of.map(({ done }) => done).sort((a, b) => a - b));
      expect(of.at(-1)!.done).toBe(of[0]!.total);
    }
    expect(phases.map((phase) => told.findIndex((progress) => progress.phase === phase))).toEqual([
      0,
      told.findLastIndex(({ phase }) => phase === 'files') + 1,
    ]);
  });

  it.skipIf(skipped !== '')(
    `frees files and native memory wherever an abort finds it${skipped}`,
    { timeout: 120_000 },
    async () => {
      const before = liveBytes();
      for (let events = 0; ; events += 7) {
        const controller = new AbortController();
        let left = events;
        let most = 0;
        const onProgress = ({ phase }: LoadProgress) => {
          if (phase === 'weights') most = Math.max(most, liveBytes() - before);
          if (left-- === 0) controller.abort();
        };
        const options = { model: 'tales', backend: createCpuBackend(), kv, onProgress, signal: controller.signal };
        const outcome = await createEngine(options).catch((error: unknown) => error);
        if (left >= 0) {
          expect(most).toBeGreaterThan(10 * 2 ** 20);
          expect(openModelFiles()).toBeGreaterThan(0);
          await (outcome as Awaited<ReturnType<typeof createEngine>>).close();
          expect([openModelFiles(), liveBytes()]).toEqual([0, before]);
          expect(events).toBeGreaterThan(20);
          break;
        }
        expect(outcome).toMatchObject({ code: 'STET_ERR_ABORTED' });
        expect([openModelFiles(), liveBytes()]).toEqual([0, before]);
      }
    },
  );
});
