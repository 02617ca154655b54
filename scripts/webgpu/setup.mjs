import { findChromium } from './chromium.mjs';
import { thisMachine } from './machine.mjs';
import { findVulkan } from './vulkan.mjs';

/**
 * What is to be done so that tests find WebGPU.
 * @typedef {(
 *   | { readonly kind: 'ready' }
 *   | { readonly kind: 'install', readonly packages: readonly string[], readonly why: string }
 *   | { readonly kind: 'advise', readonly why: string, readonly advice: string }
 * )} Setup
 */

/**
 * @param {import('./machine.mjs').Machine & { readonly maySudo: () => boolean }} machine
 * @returns {Setup}
 */
export function planSetup(machine) {
  const why = whatIsMissing(machine);
  if (why === undefined) return { kind: 'ready' };
  const packages = missingPackages(machine);
  const { platform, env, exists, isRoot, maySudo } = machine;
  const isDebian = platform === 'linux' && exists('/etc/debian_version') && exists('/usr/bin/apt-get');
  const mayInstall = isDebian && env.STET_NO_INSTALL !== '1' && (isRoot || maySudo());
  return mayInstall
    ? { kind: 'install', packages, why }
    : { kind: 'advise', why, advice: adviceFor(machine, packages) };
}

/**
 * In words, or undefined where there is both a browser and something for Dawn to run on.
 * @param {import('./machine.mjs').Machine} machine
 */
export function whatIsMissing(machine = thisMachine) {
  const missing = [...(findChromium(machine) ? [] : [NO_BROWSER]), ...missingForDawn(machine)];
  return missing.length === 0 ? undefined : `there is ${missing.join(' and ')}`;
}

/**
 * Why the tests in a browser cannot run, or undefined where they can.
 * @param {import('./machine.mjs').Machine} machine
 */
export function whyNoBrowser(machine = thisMachine) {
  return findChromium(machine) ? undefined : `there is ${NO_BROWSER}; set CHROMIUM_PATH or install chromium`;
}

/**
 * Whether tests that WebGPU is missing for are to fail, and not to be skipped.
 * @param {import('./machine.mjs').Machine} machine
 */
export function isWebGpuRequired(machine = thisMachine) {
  return machine.env.STET_REQUIRE_WEBGPU === '1';
}

const NO_BROWSER = 'no Chromium, Chrome or Edge';

function missingForDawn(machine) {
  const vulkan = findVulkan(machine);
  if (vulkan.kind !== 'none') return [];
  const names = { driver: 'no driver of Vulkan, neither of a GPU nor SwiftShader', loader: 'no libvulkan.so.1' };
  return vulkan.missing.map((part) => names[part]);
}

/** Debian's; its chromium brings SwiftShader too. */
function missingPackages(machine) {
  const vulkan = findVulkan(machine);
  const missing = vulkan.kind === 'none' ? vulkan.missing : [];
  return [
    ...(!findChromium(machine) || missing.includes('driver') ? ['chromium'] : []),
    ...(missing.includes('loader') ? ['libvulkan1'] : []),
  ];
}

function adviceFor({ platform, exists }, packages) {
  if (platform !== 'linux') return 'Install Chrome, or set CHROMIUM_PATH to a Chromium.';
  return exists('/etc/debian_version')
    ? `Run: apt-get install ${packages.join(' ')} (or set CHROMIUM_PATH; on Ubuntu, where chromium is a snap, install Chrome).`
    : 'Install Chromium or Chrome, or set CHROMIUM_PATH, and the Vulkan loader, libvulkan.so.1.';
}
