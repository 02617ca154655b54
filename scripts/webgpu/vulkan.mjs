import { tmpdir } from 'node:os';
import { posix } from 'node:path';
import { thisMachine } from './machine.mjs';

/** SwiftShader, Vulkan on the CPU, which comes with Chromium. */
const SWIFTSHADER = 'vk_swiftshader_icd.json';
const SWIFTSHADER_FOLDERS = [
  ...['/usr/lib/chromium', '/usr/lib/chromium-browser', '/usr/lib64/chromium-browser'],
  ...['/opt/google/chrome', '/opt/microsoft/msedge'],
];
const LOADER = 'libvulkan.so.1';
const LIBRARY_FOLDERS = [
  ...['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib', '/usr/local/lib'],
];
const DRIVER_FOLDERS = ['/usr/share/vulkan/icd.d', '/etc/vulkan/icd.d', '/usr/local/share/vulkan/icd.d'];
/** Drivers that are no GPU: Mesa's on the CPU, and those for other machines. */
const NO_GPU_DRIVER = /lvp|swiftshader|gfxstream|virtio/;

/**
 * What Dawn runs on in Node.
 * @typedef {(
 *   | { readonly kind: 'native' } macOS and Windows bring what is needed.
 *   | { readonly kind: 'chosen', readonly driver: string } The environment names a driver.
 *   | { readonly kind: 'gpu' }
 *   | { readonly kind: 'swiftshader', readonly driver: string }
 *   | { readonly kind: 'none', readonly missing: readonly ('driver' | 'loader')[] }
 * )} Vulkan
 */

/**
 * @param {import('./machine.mjs').Machine} machine
 * @returns {Vulkan}
 */
export function findVulkan(machine = thisMachine) {
  const { platform, env } = machine;
  if (platform !== 'linux') return { kind: 'native' };
  const chosen = env.VK_DRIVER_FILES || env.VK_ICD_FILENAMES;
  if (chosen) return { kind: 'chosen', driver: chosen };
  const isGpu = hasGpu(machine);
  const driver = isGpu ? undefined : swiftShader(machine);
  const missing = [...(isGpu || driver ? [] : ['driver']), ...(hasLoader(machine) ? [] : ['loader'])];
  if (missing.length > 0) return { kind: 'none', missing };
  return isGpu ? { kind: 'gpu' } : { kind: 'swiftshader', driver };
}

/**
 * What the Vulkan loader needs in its environment to find SwiftShader; nothing where something else is there or chosen.
 * @param {import('./machine.mjs').Machine} machine
 * @returns {Record<string, string>}
 */
export function vulkanEnv(machine = thisMachine) {
  const found = findVulkan(machine);
  if (found.kind !== 'swiftshader') return {};
  const { driver } = found;
  return {
    // The loader's older name and its present one.
    VK_ICD_FILENAMES: driver,
    VK_DRIVER_FILES: driver,
    XDG_RUNTIME_DIR: machine.env.XDG_RUNTIME_DIR ?? tmpdir(),
  };
}

/** @param {Vulkan} vulkan */
export function isOnGpu(vulkan) {
  return ['native', 'gpu'].includes(vulkan.kind) || (vulkan.kind === 'chosen' && !NO_GPU_DRIVER.test(vulkan.driver));
}

/** A device node alone is not enough: containers for computing have no driver for Vulkan. */
function hasGpu({ list }) {
  const hasDevice =
    list('/dev/dri').some((name) => name.startsWith('renderD')) ||
    list('/dev').some((name) => /^nvidia\d+$/.test(name));
  return hasDevice && DRIVER_FOLDERS.flatMap(list).some((name) => name.endsWith('.json') && !NO_GPU_DRIVER.test(name));
}

function swiftShader({ exists }) {
  return SWIFTSHADER_FOLDERS.map((folder) => posix.join(folder, SWIFTSHADER)).find(exists);
}

function hasLoader({ env, exists }) {
  const folders = [...(env.LD_LIBRARY_PATH ?? '').split(':').filter((folder) => folder !== ''), ...LIBRARY_FOLDERS];
  return folders.some((folder) => exists(posix.join(folder, LOADER)));
}
