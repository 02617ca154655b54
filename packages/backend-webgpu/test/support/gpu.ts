import { WebGpu } from '../../src/index.js';

const found = await WebGpu.open().then(
  (gpu) => {
    gpu.close();
    return gpu.description;
  },
  (error: Error) => {
    if (process.env.STET_REQUIRE_WEBGPU === '1') throw error;
    return error;
  },
);

/** Why there is no WebGPU here, or undefined where there is one. With STET_REQUIRE_WEBGPU=1 its absence is an error. */
export const withoutGpu: string | undefined = found instanceof Error ? found.message : undefined;

/** Whether the GPU is a program on the CPU, thousands of times slower. */
export const isSoftwareGpu = typeof found === 'string' && /swiftshader|llvmpipe/i.test(found);
