import type { BackendFactory } from '@stet/backend';
import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import { loadModelPath } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { describe, expect, it } from 'vitest';
import { compareAnswers } from '../../src/matrix/compare.js';
import { askedRequests, workOf } from '../../src/matrix/requests.js';
import { type Schedule, schedulesOf } from '../../src/matrix/schedule.js';
import { type Answers, answerWork } from '../../src/matrix/work.js';
import { readStudyModel } from '../../src/study/study-model.js';

const features = cpuFeatures();
const model = await readStudyModel('tales');
const [alone] = schedulesOf('reference', { size: 'quick' });
const few: Schedule = { ...alone!, requests: 2 };

function answersOn(backend: BackendFactory, schedule: Schedule, seed = 42): Promise<Answers> {
  const open = (format: Schedule['format']) => loadModelPath('tales', { format });
  return answerWork(workOf(schedule, askedRequests(model, 4), model, seed), { backend, open });
}

describe('answers to the requests of the matrix', () => {
  it.skipIf(!features.available)(
    'are those of the reference on the CPU, in company and in windows (skipped where the CPU backend is missing)',
    async () => {
      const baseline = await answersOn(createReferenceBackend, few);
      expect(baseline.answers.map(({ steps }) => steps.length)).toEqual([4, 4]);
      const cpu = createCpuBackend({ threads: 2, selfTest: false });
      for (const schedule of [few, { ...few, batch: 4, policy: { dvr: 4 }, maxRows: 16 } as const]) {
        const answers = await answersOn(cpu, schedule);
        expect(answers.fingerprint).toBe(baseline.fingerprint);
        expect(answers.answers).toEqual(baseline.answers);
      }
      // Another model is seen as one.
      const other = await answersOn(cpu, { ...few, format: 'q4' });
      expect(compareAnswers(baseline, other)).toMatchObject({ equalLogprobs: false });
      expect(other.fingerprint).not.toBe(baseline.fingerprint);
    },
  );

  it.skipIf(!features.available)(
    'come from the prefix cache where that is on (skipped where the CPU backend is missing)',
    async () => {
      const cpu = createCpuBackend({ threads: 1, selfTest: false });
      const all: Schedule = { ...alone!, prefixCache: 'on' };
      const warm = await answersOn(cpu, all);
      const cold = await answersOn(cpu, { ...all, prefixCache: 'off' });
      expect(warm.cachedTokens).toBeGreaterThan(0);
      expect(cold.cachedTokens).toBe(0);
      expect(warm.answers).toEqual(cold.answers);
    },
  );
});
