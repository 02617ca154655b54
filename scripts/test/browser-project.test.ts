import { expect, it } from 'vitest';
import { isWebGpuRequired, whyNoBrowser } from '../webgpu/setup.mjs';

const reason = whyNoBrowser();
const isSkipped = reason !== undefined && !isWebGpuRequired();

// The tests in it are a project of their own, see vitest.config.ts.
it.skipIf(isSkipped)(`there is a browser to test in${isSkipped ? ` (skipped: ${reason})` : ''}`, () => {
  expect(reason).toBeUndefined();
});
