import type { Op, Plan, WeightFormat, WeightSpec } from '@stet/backend';
import { conformanceModels } from '@stet/backend/conformance';
import { rmsNormConstants } from '@stet/backend/numerics';
import { describe, expect, it } from 'vitest';
import { compileProgram, fastSchedule } from '../src/program.js';
import { Schedule, type Stage } from '../src/stages.js';

const sizes = { blockSize: 16, blockCount: 8, maxRows: 32 };

describe('the program of a plan', () => {
  it('shares stages between neighbours of a Llama layer', () => {
    const [model] = conformanceModels();
    const kinds = stagesOf(model.plan);
    const layer = ['rows', 'linear 3', 'rows', 'attention', 'rows', 'linear 1', 'rows', 'linear 1', 'rows', 'linear 1'];
    expect(kinds).toEqual([...Array.from({ length: model.plan.layerCount }, () => layer).flat(), 'rows', 'logits']);
  });

  it('runs fast batches on canonical kernels where every matrix has a byte format, and only there', () => {
    const matrix = (name: string, format: WeightFormat): WeightSpec => ({
      kind: 'matrix',
      name,
      rows: 64,
      columns: 64,
      format,
    });
    const plan = planOf([]);
    const schedules = (['q8', 'q4', 'bf16'] as const).map((format) => {
      const mixed = {
        ...plan,
        weights: [...plan.weights.filter((w) => w.kind === 'vector'), matrix('a', 'q4'), matrix('b', format)],
      };
      return fastSchedule(mixed, 'native');
    });
    expect(schedules).toEqual(['canonical', 'canonical', 'free']);
  });

  it('is the same for the same plan', () => {
    const [model] = conformanceModels();
    const once = compileProgram({ plan: model.plan, ...sizes }, 'native');
    expect(compileProgram({ plan: model.plan, ...sizes }, 'native')).toEqual(once);
  });

  it.each([
    ['a window shorter than the context', 15, 15],
    ['a window as long as the context as none', 16, 0],
    ['a window longer than 32 bits count as none', 2 ** 33, 0],
    ['no window', undefined, 0],
  ])('has %s', (_, windowSize, word) => {
    const attention = { kind: 'attention', layer: 0, query: 1, headCount: 1, output: 2 } as const;
    const plan = planOf([windowSize === undefined ? attention : { ...attention, windowSize }]);
    const words = [...compileProgram({ plan, ...sizes }, 'native').words];
    // The stages: embed; attention of layer 0, buffer 1, one head, the window, to buffer 2; logits.
    expect(words.slice(-14, -6)).toEqual([ATTENTION_STAGE, 1, 0, 1, 1, word, 2, LOGITS_STAGE]);
  });

  it('prepares an input once for the linears that share it, and again after it was written', () => {
    const plan = planOf([
      { kind: 'linear', input: 0, weight: 1, output: 1 },
      { kind: 'linear', input: 0, weight: 1, output: 2 },
      { kind: 'add', left: 0, right: 1, output: 0 },
      { kind: 'linear', input: 0, weight: 1, output: 3 },
    ]);
    expect(stagesOf(plan)).toEqual(['rows', 'linear 2', 'rows', 'linear 1', 'logits']);
  });
});

describe('the program of a layer with norms of query and key heads', () => {
  const qwen = withHeadNorms(conformanceModels()[0].plan);

  it('keeps them in the stage of the rope', () => {
    expect(stagesOf(qwen)).toEqual(stagesOf(conformanceModels()[0].plan));
  });

  it('has the constants of a head, not of a row', () => {
    const { scaledEpsilon, rootWidth } = rmsNormConstants(qwen.headSize, 1e-6);
    const [, ...constants] = compileProgram({ plan: qwen, ...sizes }, 'native').constants;
    expect(constants.slice(2, 4)).toEqual([scaledEpsilon, rootWidth]);
  });
});

describe('a schedule', () => {
  it('runs row operations of one stage in the order of the plan', () => {
    const schedule = new Schedule();
    schedule.place('rows', [], ['a'], op(1));
    schedule.place('rows', ['a'], ['b'], op(2));
    schedule.place('rows', ['b'], ['a'], op(3));
    expect(shapeOf(schedule)).toEqual([['rows', 1, 2, 3]]);
  });

  it('starts a new stage for what a linear wrote', () => {
    const schedule = new Schedule();
    schedule.place('rows', [], ['a'], op(1));
    schedule.place('linear', ['a'], ['b'], op(2));
    schedule.place('rows', ['b'], ['c'], op(3));
    schedule.place('linear', ['a'], ['d'], op(4));
    expect(shapeOf(schedule)).toEqual([
      ['rows', 1],
      ['linear', 2, 4],
      ['rows', 3],
    ]);
  });

  it('does not overwrite what an earlier stage still reads', () => {
    const schedule = new Schedule();
    schedule.place('rows', [], ['a'], op(1));
    schedule.place('linear', ['a'], ['b'], op(2));
    schedule.place('rows', [], ['a'], op(3));
    schedule.place('linear', ['a'], ['b'], op(4));
    expect(shapeOf(schedule)).toEqual([
      ['rows', 1],
      ['linear', 2],
      ['rows', 3],
      ['linear', 4],
    ]);
  });

  it('puts at most eight linears into a stage', () => {
    const schedule = new Schedule();
    for (let i = 0; i < 9; i++) schedule.place('linear', ['a'], [`b${i}`], op(i));
    expect(schedule.stages.map((stage) => stage.entries.length)).toEqual([8, 1]);
  });

  it.each([
    ['into the gate', 'gate', true],
    ['into a buffer of its own', 'free', true],
    ['into what the stage before reads no more', 'before', true],
    ['into what a linear of the stage writes', 'other', false],
    ['into what a later stage has read', 'later', false],
  ])('joins a swiglu %s to its linears only where that is safe', (_, output, isFused) => {
    const schedule = new Schedule();
    schedule.place('rows', ['before'], ['x', 'later'], op(1));
    for (const name of ['gate', 'up', 'other']) {
      schedule.place('linear', ['x'], [name], {
        kind: 'unit',
        linears: [{ output: name, words: [] }],
        swigluOutput: -1,
      });
    }
    schedule.place('rows', ['other', 'later'], ['y'], op(2));
    expect(schedule.fuseSwiglu('gate', 'up', output, 7)).toBe(isFused);
    expect(schedule.stages[1].entries.length).toBe(isFused ? 2 : 3);
  });
});

/** Adds a norm of each head before each rope. */
function withHeadNorms(plan: Plan): Plan {
  const weight = plan.weights.length;
  return {
    ...plan,
    weights: [...plan.weights, { kind: 'vector', name: 'head.norm', size: plan.headSize, role: 'norm' }],
    ops: plan.ops.flatMap((entry): Op[] => {
      if (entry.kind !== 'rope') return [entry];
      const { buffer, headCount: groupCount } = entry;
      return [{ kind: 'rmsNorm', input: buffer, weight, epsilon: 1e-6, groupCount, output: buffer }, entry];
    }),
  };
}

function op(word: number): { kind: 'op'; words: number[] } {
  return { kind: 'op', words: [word] };
}

function shapeOf(schedule: Schedule): (string | number)[][] {
  return schedule.stages.map((stage) => [
    stage.kind,
    ...stage.entries.flatMap((entry) => (entry.kind === 'op' ? entry.words : [])),
  ]);
}

const ATTENTION_STAGE = 2;
const LOGITS_STAGE = 3;
const stageNames: readonly Stage['kind'][] = ['rows', 'linear', 'attention', 'logits'];
/** Words of a row operation by its kind: embed, rmsNorm, prepare, rope, kvWrite, swiglu, add. */
const rowOpWords = [3, 6, 3, 4, 4, 4, 4];

/** Reads the stages back from the words, as native/program.cpp does; linears with the number of their units. */
function stagesOf(plan: Plan): string[] {
  const { words } = compileProgram({ plan, ...sizes }, 'native');
  let at = 9;
  const next = (): number => words[at++];
  const skip = (count: number): void => {
    at += count;
  };
  next();
  skip(next());
  skip(4 * next());
  skip(2 * next());
  const stages: string[] = [];
  for (let stage = next(); stage > 0; stage--) {
    const kind = stageNames[next()];
    const count = next();
    stages.push(kind === 'linear' ? `${kind} ${count}` : kind);
    for (let i = 0; i < count; i++) {
      if (kind === 'rows') skip(rowOpWords[words[at]]);
      else if (kind === 'linear') skip(4 * next() + 1);
      else skip(5);
    }
  }
  expect(at).toBe(words.length);
  return stages;
}

function planOf(ops: readonly Op[]): Plan {
  return {
    architecture: 'test',
    vocabSize: 32,
    contextLength: 16,
    layerCount: 1,
    kvHeadCount: 1,
    headSize: 32,
    buffers: ['a', 'b', 'c', 'd'].map((name) => ({ name, width: 32 })),
    weights: [
      { kind: 'vector', name: 'norm', size: 32, role: 'norm' },
      { kind: 'matrix', name: 'w', rows: 32, columns: 32, format: 'bf16' },
    ],
    ropes: [],
    ops: [
      { kind: 'embed', table: 1, output: 0 },
      ...ops,
      { kind: 'logits', input: 0, norm: 0, epsilon: 1e-5, weight: 1 },
    ],
  };
}
