import { vulkanEnv } from '../../scripts/webgpu/vulkan.mjs';

/** Where there is no GPU, lets Dawn find Vulkan on the CPU, and says so; on stderr, unless it is told where. */
export function allowSoftwareGpu(log: (line: string) => void = console.error): void {
  const env = vulkanEnv();
  if (Object.keys(env).length === 0) return;
  Object.assign(process.env, env);
  log('note: there is no GPU here, WebGPU runs on SwiftShader, a program on the CPU');
}
