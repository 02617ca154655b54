import { existsSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';

/** The driver that comes with Debian's chromium: Vulkan on the CPU, which WebGPU runs on where there is no GPU. */
const DRIVER = '/usr/lib/chromium/vk_swiftshader_icd.json';

/** What the Vulkan loader needs to find that driver; nothing where there is a GPU, no driver, or a choice already made. */
export function swiftShaderEnv() {
  const { env } = process;
  if (env.VK_ICD_FILENAMES || env.VK_DRIVER_FILES || hasGpu() || !existsSync(DRIVER)) return {};
  return {
    VK_ICD_FILENAMES: DRIVER,
    VK_DRIVER_FILES: DRIVER,
    XDG_RUNTIME_DIR: env.XDG_RUNTIME_DIR ?? tmpdir(),
  };
}

function hasGpu() {
  return existsSync('/dev/dri') && readdirSync('/dev/dri').some((name) => name.startsWith('renderD'));
}
