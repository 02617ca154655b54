import { WebGpu, type WebGpuOptions } from '../../src/index.js';

/**
 * How tests open a device. Workgroup memory is not zeroed, which takes a GPU that is a program most of the time that a
 * pipeline costs, and which no kernel may rely on.
 */
export const testGpu: WebGpuOptions = { dawn: ['enable-dawn-features=disable_workgroup_init'] };

const found = await WebGpu.open(testGpu).then(
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
