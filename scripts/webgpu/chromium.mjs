import { posix, win32 } from 'node:path';
import { thisMachine } from './machine.mjs';
import { findVulkan, isOnGpu } from './vulkan.mjs';

const COMMANDS = [
  ...['chromium', 'google-chrome-stable', 'google-chrome', 'chromium-browser'],
  ...['microsoft-edge-stable', 'microsoft-edge'],
];
const MAC_APPS = ['Google Chrome', 'Chromium', 'Microsoft Edge'];
const WINDOWS_APPS = ['Google/Chrome/Application/chrome.exe', 'Microsoft/Edge/Application/msedge.exe'];

/**
 * The browser that tests run in: `CHROMIUM_PATH`, or the first Chromium, Chrome or Edge that is installed. Throws where
 * `CHROMIUM_PATH` leads nowhere.
 * @param {import('./machine.mjs').Machine} machine
 * @returns {string | undefined}
 */
export function findChromium(machine = thisMachine) {
  const { env, exists } = machine;
  const chosen = env.CHROMIUM_PATH;
  if (!chosen) return candidates(machine).find(exists);
  if (!exists(chosen)) throw new Error(`CHROMIUM_PATH is ${chosen}, which does not exist`);
  return chosen;
}

function candidates({ platform, env }) {
  switch (platform) {
    case 'darwin':
      return MAC_APPS.map((app) => `/Applications/${app}.app/Contents/MacOS/${app}`);
    case 'win32':
      return [env.ProgramFiles, env['ProgramFiles(x86)'], env.LOCALAPPDATA]
        .filter((folder) => folder)
        .flatMap((folder) => WINDOWS_APPS.map((app) => win32.join(folder, app)));
    default: {
      const folders = (env.PATH ?? '').split(':').filter((folder) => folder !== '');
      return COMMANDS.flatMap((name) => folders.map((folder) => posix.join(folder, name)));
    }
  }
}

/**
 * How a browser is started for tests: with WebGPU, on the CPU where there is no GPU, and without a word to anybody but
 * this machine. What playwright sets anyhow, such as headless, is not repeated.
 * @param {import('./machine.mjs').Machine} machine
 */
export function chromiumArgs(machine = thisMachine) {
  return [
    '--enable-unsafe-webgpu',
    // As in Node: see testGpu of packages/backend-webgpu/test/support/gpu.ts.
    '--enable-dawn-features=disable_workgroup_init',
    ...(isOnGpu(findVulkan(machine)) ? ['--ignore-gpu-blocklist'] : ['--use-webgpu-adapter=swiftshader']),
    // Chromium refuses to start as root with its sandbox, and the pages are our own.
    ...(machine.isRoot ? ['--no-sandbox'] : []),
    '--disable-domain-reliability',
    '--no-pings',
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
  ];
}
