import { selfTestModel, selfTestOps, assertSelfTest } from '@stet/backend/self-test';
import { expect, test } from 'vitest';
import { createCpuBackend, createCpuOpRunner, cpuFeatures, liveBytes } from '../src/index.js';

console.log(cpuFeatures());
for (const isa of ['scalar', 'avx2', 'avx512'] as const) {
  test(`ops ${isa}`, async () => {
    const r = createCpuOpRunner({ isa });
    const t = performance.now();
    const startup = await selfTestOps(r);
    console.log(isa, 'startup ms', performance.now() - t, startup.vectors.length);
    const report = await selfTestOps(r, { subset: 'full' });
    console.log(report.vectors.length, report.failures.slice(0, 5));
    assertSelfTest(report);
  });
  for (const threads of [1, 2, 4])
    test(`model ${isa} ${threads}`, async () => {
      const t = performance.now();
      const report = await selfTestModel(createCpuBackend({ isa, threads }), { chunkings: ['prefill', 'chunks', 'decode'] });
      console.log(isa, threads, 'ms', performance.now() - t, report.vectors.length, report.failures.slice(0, 3));
      assertSelfTest(report);
      expect(liveBytes()).toBe(0);
    });
}
