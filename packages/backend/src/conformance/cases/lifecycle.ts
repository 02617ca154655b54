import { blocksFor, type ConformanceCase, type ConformanceContext, defaultSizes } from '../case.js';
import { batchOf, expectEqualAnswers, feed, forward } from '../drive.js';
import { expectEqual, expectEqualBits, fail } from '../equal-bits.js';
import { buildModel } from '../models.js';
import { expectRejects } from './refusal.js';

export const lifecycleCases: ConformanceCase[] = [
  {
    group: 'lifecycle',
    name: 'a second call while one is in flight is refused and does not disturb it',
    scope: 'once',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const sequence = { tokens: sequences[0]!, position: 0, blocks: blocksFor(75, 1) };
      const first = forward(backend, { canonical: [sequence] });
      const overwriting = batchOf([{ ...sequence, tokens: sequence.tokens.toReversed() }]);
      const second = expectRejects(backend.forward({ canonical: overwriting }), 'STET_ERR_BACKEND_BUSY', 'second call');
      expectEqualAnswers((await first).canonical[0]!, await solo(0), 'the call in flight');
      await second;
      const again = await feed(backend, 'canonical', sequence, { first: 60 });
      expectEqualAnswers(again, await solo(0), 'the call after it');
    },
  },
  {
    group: 'lifecycle',
    name: 'a closed backend refuses calls and may be closed again',
    scope: 'once',
    async run({ load, sequences }) {
      const backend = await load();
      const canonical = batchOf([{ tokens: sequences[4]!, position: 0, blocks: [1] }]);
      await backend.forward({ canonical });
      await Promise.all([backend.close(), backend.close()]);
      await backend.close();
      await expectRejects(backend.forward({ canonical }), 'STET_ERR_BACKEND_CLOSED', 'a call after close');
    },
  },
  {
    group: 'lifecycle',
    name: 'close waits for the call in flight, which ends as if nothing was closed',
    scope: 'once',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const settled: string[] = [];
      const canonical = batchOf([{ tokens: sequences[0]!, position: 0, blocks: blocksFor(75, 1) }]);
      const call = backend.forward({ canonical }).then((result) => {
        settled.push('forward');
        return result.canonical?.logits.slice();
      });
      const closing = backend.close().then(() => settled.push('close'));
      await expectRejects(backend.forward({ canonical }), 'STET_ERR_BACKEND_CLOSED', 'a call while closing');
      const logits = await call;
      await closing;
      expectEqual(settled.join(), 'forward,close', 'the order of settling');
      const expected = (await solo(0)).flatMap((answer) => [...answer.logits!]);
      expectEqualBits(logits!, Float32Array.from(expected), 'logits of the call in flight');
    },
  },
  {
    group: 'lifecycle',
    name: 'the event loop turns while a step runs',
    scope: 'once',
    async run(context) {
      const stalls: number[] = [];
      for (let attempt = 0; attempt < 3; attempt++) {
        stalls.push(await longestStall(context));
        if (Math.min(...stalls) <= MAX_STALL_MS) return;
      }
      fail(`timers waited ${stalls.map(Math.round).join(', ')} ms in three tries, allowed are ${MAX_STALL_MS}`);
    },
  },
  {
    group: 'lifecycle',
    name: 'closed backends hold no memory',
    scope: 'once',
    needs: 'liveBytes',
    async run({ factory, model, sequences, liveBytes }) {
      const before = liveBytes();
      const canonical = batchOf([{ tokens: sequences[4]!, position: 0, blocks: [1] }]);
      for (let i = 0; i < 20; i++) {
        const backend = await factory({ plan: model.plan, weights: model.weights, ...defaultSizes });
        if (i === 0 && !(liveBytes() > before)) fail('an open backend does not count in liveBytes');
        await backend.forward({ canonical, fast: batchOf([{ tokens: [0], position: 0, blocks: [2] }]) });
        const call = backend.forward({ canonical });
        await backend.close();
        await call;
        expectEqual(liveBytes(), before, `live bytes after ${i + 1} backends were closed`);
      }
    },
  },
];

/** Generous: a busy machine may take the processor away for a while. */
const MAX_STALL_MS = 150;

/** Longest time between two turns of a timer while a step of a model that takes its time is run, in ms. */
async function longestStall({ load }: ConformanceContext): Promise<number> {
  const heavy = buildModel({
    name: 'heavy',
    seed: 14,
    vocabSize: 256,
    contextLength: 128,
    layerCount: 3,
    hiddenSize: 128,
    headCount: 4,
    kvHeadCount: 2,
    headSize: 32,
    feedForwardSize: 384,
    hasBiases: false,
    head: 'tied',
    attentionFormat: 'bf16',
    feedForwardFormat: 'bf16',
    headFormat: 'bf16',
  });
  const backend = await load({ plan: heavy.plan, weights: heavy.weights, maxRows: 96 });
  const tokens = Array.from({ length: 96 }, (_, i) => i);
  let stall = 0;
  let last = performance.now();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const turn = (): void => {
    stall = Math.max(stall, performance.now() - last);
    last = performance.now();
    timer = setTimeout(turn, 1);
  };
  turn();
  await forward(backend, { canonical: [{ tokens, position: 0, blocks: blocksFor(96, 1), want: 'argmax' }] });
  stall = Math.max(stall, performance.now() - last);
  clearTimeout(timer);
  await backend.close();
  return stall;
}
