import { StetError } from '../../errors.js';
import type { Op, Plan } from '../../plan.js';
import type { BackendLoad } from '../../port.js';
import type { WeightSource } from '../../weights.js';
import { type ConformanceCase, type ConformanceContext, defaultSizes } from '../case.js';
import { expectEqual, fail } from '../equal-bits.js';
import { expectRejects } from './refusal.js';

export const loadCases: ConformanceCase[] = [
  {
    group: 'load',
    name: 'a plan that does not fit together is refused',
    scope: 'once',
    run: async (context) => {
      for (const [name, plan] of badPlans(context.model.plan)) {
        await expectRejects(context.load({ plan }), 'STET_ERR_BAD_PLAN', name);
      }
    },
  },
  {
    group: 'load',
    name: 'weights that do not fit the plan are refused',
    scope: 'eachModel',
    run: async (context) => {
      for (const [name, weights] of badWeights(context.model.weights)) {
        await expectRejects(context.load({ weights }), 'STET_ERR_BAD_WEIGHTS', name);
      }
    },
  },
  {
    group: 'load',
    name: 'sizes that no backend has are refused',
    scope: 'once',
    async run({ load }) {
      const sizes = [{ blockSize: 0 }, { blockSize: 17 }, { blockCount: 1 }, { maxRows: 0 }, { maxRows: 1.5 }];
      for (const size of sizes) await expectRejects(load(size), 'STET_ERR_UNSUPPORTED', JSON.stringify(size));
    },
  },
  {
    group: 'load',
    name: 'the error of a weight source comes through',
    scope: 'once',
    async run(context) {
      const error = new StetError('STET_ERR_MISSING_TENSOR', 'tensor number three is not there');
      try {
        await context.load({ weights: failingAfter(context.model.weights, 2, error) });
      } catch (caught) {
        expectEqual((caught as StetError).code, error.code, 'code of the rejection');
        expectEqual((caught as StetError).message, error.message, 'message of the rejection');
        return;
      }
      fail('a model without a tensor was loaded');
    },
  },
  {
    group: 'load',
    name: 'an aborted load is given up',
    scope: 'once',
    async run(context) {
      await expectRejects(context.load({ signal: AbortSignal.abort() }), 'STET_ERR_ABORTED', 'aborted before');
      for (const afterWeights of [1, context.model.plan.weights.length - 1]) {
        const { load } = abortingAfter(context, afterWeights);
        await expectRejects(context.load(load), 'STET_ERR_ABORTED', `aborted after ${afterWeights} weights`);
      }
    },
  },
  {
    group: 'load',
    name: 'progress counts up to the number of weights',
    scope: 'once',
    async run({ load, model }) {
      const calls: [number, number][] = [];
      await load({ onProgress: (done, total) => calls.push([done, total]) });
      const total = model.plan.weights.length;
      calls.forEach(([done, of], i) => {
        expectEqual(of, total, `total of call ${i}`);
        if (i > 0 && done <= calls[i - 1]![0]) fail(`call ${i} says ${done} after ${calls[i - 1]![0]}`);
      });
      expectEqual(calls.at(-1)?.[0], total, 'the last call');
    },
  },
  {
    group: 'load',
    name: 'a load that fails holds no memory',
    scope: 'once',
    needs: 'liveBytes',
    async run(context) {
      const { load, model, liveBytes } = context;
      const before = liveBytes();
      const weightCount = model.plan.weights.length;
      const error = new StetError('STET_ERR_MISSING_TENSOR', 'gone');
      for (let count = 0; count < weightCount; count += 3) {
        await expectRejects(load({ weights: failingAfter(model.weights, count, error) }), error.code, 'missing tensor');
        await expectRejects(load(abortingAfter(context, count).load), 'STET_ERR_ABORTED', 'abort');
      }
      for (const [, weights] of badWeights(model.weights)) await load({ weights }).catch(() => undefined);
      for (const [, plan] of badPlans(model.plan)) await load({ plan }).catch(() => undefined);
      expectEqual(liveBytes(), before, 'live bytes after all failures');
    },
  },
  {
    group: 'load',
    name: 'info says what was loaded',
    scope: 'eachModel',
    async run({ load, model }) {
      const { info } = await load({ blockSize: 32, blockCount: 9, maxRows: 21 });
      expectEqual(info.vocabSize, model.plan.vocabSize, 'vocabSize');
      expectEqual(info.contextLength, model.plan.contextLength, 'contextLength');
      expectEqual(info.blockSize, 32, 'blockSize');
      expectEqual(info.blockCount, 9, 'blockCount');
      expectEqual(info.maxRows, 21, 'maxRows');
      if (info.canonical === 'portable' && info.numerics === null) fail('canonical is portable, but numerics is null');
      for (const part of ['weightBytes', 'kvBytes', 'scratchBytes'] as const) {
        if (!(info.memory[part] >= 0)) fail(`memory.${part} is ${info.memory[part]}`);
      }
      const more = await load({ blockSize: 32, blockCount: defaultSizes.blockCount, maxRows: 21 });
      if (!(more.info.memory.kvBytes > info.memory.kvBytes)) fail('kvBytes does not grow with the number of blocks');
    },
  },
];

function badPlans(plan: Plan): [string, Plan][] {
  const change = (kind: Op['kind'], changes: object): Plan => ({
    ...plan,
    ops: plan.ops.map((op) => (op.kind === kind ? ({ ...op, ...changes } as Op) : op)),
  });
  return [
    ['another vocabulary', { ...plan, vocabSize: plan.vocabSize + 1 }],
    ['no logits', { ...plan, ops: plan.ops.slice(0, -1) }],
    ['a buffer that does not exist', change('add', { output: plan.buffers.length })],
    ['a weight that does not exist', change('logits', { weight: plan.weights.length })],
    ['a layer that does not exist', change('attention', { layer: plan.layerCount })],
    ['an unknown op', change('swiglu', { kind: 'gelu' })],
  ];
}

/** Each spoils the data of one spec. */
function badWeights(good: WeightSource): [string, WeightSource][] {
  const vectors = (values: (size: number) => Float32Array): WeightSource => ({
    read: async (spec) => (spec.kind === 'vector' ? { kind: 'vector', values: values(spec.size) } : good.read(spec)),
  });
  const matrices = (change: (data: Awaited<ReturnType<WeightSource['read']>>) => typeof data): WeightSource => ({
    read: async (spec) => (spec.kind === 'matrix' ? change(await good.read(spec)) : good.read(spec)),
  });
  return [
    ['a vector that is too short', vectors((size) => new Float32Array(size - 1))],
    ['a vector that is too long', vectors((size) => new Float32Array(size + 1))],
    ['a vector where a matrix belongs', matrices(() => ({ kind: 'vector', values: new Float32Array(64) }))],
    [
      'a matrix that is too short',
      matrices((data) => {
        switch (data.kind) {
          case 'bf16':
            return { ...data, bits: data.bits.slice(1) };
          case 'q8':
            return { ...data, quants: data.quants.slice(1) };
          case 'q4':
            return { ...data, centres: data.centres.slice(1) };
          case 'vector':
            return data;
        }
      }),
    ],
    [
      'a matrix of another format',
      matrices((data) => {
        const isBf16 = data.kind === 'bf16';
        return isBf16
          ? { kind: 'q8', quants: new Int8Array(data.bits.length), scales: new Float32Array(data.bits.length / 32) }
          : { kind: 'bf16', bits: new Uint16Array(64) };
      }),
    ],
  ];
}

function failingAfter(good: WeightSource, count: number, error: Error): WeightSource {
  let reads = 0;
  return {
    async read(spec) {
      if (reads++ >= count) throw error;
      return good.read(spec);
    },
  };
}

/** A load whose signal fires after some weights were read. */
function abortingAfter({ model }: ConformanceContext, count: number): { load: Partial<BackendLoad> } {
  const controller = new AbortController();
  let reads = 0;
  const weights: WeightSource = {
    async read(spec) {
      if (reads++ >= count) controller.abort();
      return model.weights.read(spec);
    },
  };
  return { load: { weights, signal: controller.signal } };
}
