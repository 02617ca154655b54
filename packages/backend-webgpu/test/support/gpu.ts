import { WebGpu } from '../../src/index.js';

/** Why there is no WebGPU here, or undefined where there is one. With STET_REQUIRE_WEBGPU=1 its absence is an error. */
export const withoutGpu: string | undefined = await WebGpu.open().then(
  (gpu) => {
    gpu.close();
    return undefined;
  },
  (error: Error) => {
    if (process.env.STET_REQUIRE_WEBGPU === '1') throw error;
    return error.message;
  },
);
