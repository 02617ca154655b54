import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { chromiumArgs, findChromium } from '../webgpu/chromium.mjs';
import type { Machine } from '../webgpu/machine.mjs';
import { planSetup, whyNoBrowser } from '../webgpu/setup.mjs';
import { findVulkan, vulkanEnv } from '../webgpu/vulkan.mjs';

interface MachineOptions {
  readonly platform?: string;
  readonly env?: Record<string, string>;
  readonly isRoot?: boolean;
  readonly maySudo?: boolean;
  readonly files?: readonly string[];
}

/** A machine that has these files. */
function machine({ platform = 'linux', env = {}, isRoot = false, maySudo = false, files = [] }: MachineOptions = {}) {
  return {
    platform,
    env: { PATH: '/usr/local/bin:/usr/bin', ...env },
    isRoot,
    exists: (path) => files.includes(path),
    list: (folder) =>
      files.filter((file) => file.startsWith(`${folder}/`)).map((file) => file.slice(folder.length + 1).split('/')[0]!),
    maySudo: () => maySudo,
  } satisfies Machine & { maySudo: () => boolean };
}

const CHROMIUM = ['/usr/bin/chromium', '/usr/lib/chromium/vk_swiftshader_icd.json'];
const LOADER = '/usr/lib/x86_64-linux-gnu/libvulkan.so.1';
const DEBIAN = ['/etc/debian_version', '/usr/bin/apt-get'];
const GPU = ['/dev/nvidia0', '/usr/share/vulkan/icd.d/nvidia_icd.json'];

describe('the browser for tests', () => {
  it('is the one of CHROMIUM_PATH, and nothing else when that leads nowhere', () => {
    const files = [...CHROMIUM, '/opt/mine'];
    expect(findChromium(machine({ files, env: { CHROMIUM_PATH: '/opt/mine' } }))).toBe('/opt/mine');
    expect(() => findChromium(machine({ files, env: { CHROMIUM_PATH: '/gone' } }))).toThrow(
      'CHROMIUM_PATH is /gone, which does not exist',
    );
  });

  it.each([
    ['linux', {}, '/usr/bin/chromium'],
    ['linux', { PATH: '/snap/bin::/home/me/bin' }, '/home/me/bin/google-chrome'],
    ['darwin', {}, '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'],
    ['win32', { ProgramFiles: 'C:\\Programs' }, 'C:\\Programs\\Microsoft\\Edge\\Application\\msedge.exe'],
  ])('is found on %s with %o', (platform, env, path) => {
    expect(findChromium(machine({ platform, env, files: [path] }))).toBe(path);
    expect(findChromium(machine({ platform, env }))).toBeUndefined();
  });

  it('computes on the CPU only where there is no GPU, and reaches no other machine', () => {
    const onCpu = '--use-webgpu-adapter=swiftshader';
    expect(chromiumArgs(machine({ files: [...CHROMIUM, LOADER] }))).toContain(onCpu);
    expect(chromiumArgs(machine())).toContain(onCpu);
    expect(chromiumArgs(machine({ env: { VK_DRIVER_FILES: '/usr/lib/chromium/vk_swiftshader_icd.json' } }))).toContain(
      onCpu,
    );
    expect(chromiumArgs(machine({ files: [...GPU, LOADER] }))).not.toContain(onCpu);
    expect(chromiumArgs(machine({ platform: 'darwin' }))).not.toContain(onCpu);
    expect(chromiumArgs(machine())).toContain(
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
    );
  });

  it('has no sandbox as root alone', () => {
    expect(chromiumArgs(machine({ isRoot: true }))).toContain('--no-sandbox');
    expect(chromiumArgs(machine())).not.toContain('--no-sandbox');
  });
});

describe('what Dawn runs on', () => {
  it('is a GPU where there are its device, its driver and the loader', () => {
    expect(findVulkan(machine({ files: [...CHROMIUM, ...GPU, LOADER] }))).toEqual({ kind: 'gpu' });
    expect(findVulkan(machine({ files: [...CHROMIUM, '/dev/dri/renderD128', GPU[1]!, LOADER] }))).toEqual({
      kind: 'gpu',
    });
    expect(findVulkan(machine({ files: GPU }))).toEqual({ kind: 'none', missing: ['loader'] });
    expect(vulkanEnv(machine({ files: [...CHROMIUM, ...GPU, LOADER] }))).toEqual({});
  });

  it('is SwiftShader where a GPU is not there or has no driver', () => {
    const driver = CHROMIUM[1]!;
    for (const more of [[], ['/dev/nvidia0'], ['/dev/dri/renderD128', '/usr/share/vulkan/icd.d/lvp_icd.x86_64.json']]) {
      expect(findVulkan(machine({ files: [...CHROMIUM, LOADER, ...more] }))).toEqual({ kind: 'swiftshader', driver });
    }
    const files = [...CHROMIUM, '/opt/lib/libvulkan.so.1'];
    expect(vulkanEnv(machine({ files, env: { LD_LIBRARY_PATH: '/opt/lib', XDG_RUNTIME_DIR: '/run/me' } }))).toEqual({
      VK_ICD_FILENAMES: driver,
      VK_DRIVER_FILES: driver,
      XDG_RUNTIME_DIR: '/run/me',
    });
  });

  it('is left alone where the environment or the system has chosen', () => {
    const env = { VK_ICD_FILENAMES: '/opt/gpu.json' };
    expect(findVulkan(machine({ files: CHROMIUM, env }))).toEqual({ kind: 'chosen', driver: '/opt/gpu.json' });
    expect(vulkanEnv(machine({ files: [...CHROMIUM, LOADER], env }))).toEqual({});
    expect(findVulkan(machine({ platform: 'darwin' }))).toEqual({ kind: 'native' });
  });
});

describe('the setup of WebGPU', () => {
  it('does nothing where everything is there', () => {
    expect(planSetup(machine({ isRoot: true, files: [...DEBIAN, ...CHROMIUM, LOADER] }))).toEqual({ kind: 'ready' });
    expect(whyNoBrowser(machine({ files: CHROMIUM }))).toBeUndefined();
  });

  it('installs what is missing on Debian, as root or with sudo that asks nothing', () => {
    const both = ['chromium', 'libvulkan1'];
    for (const who of [{ isRoot: true }, { maySudo: true }]) {
      expect(planSetup(machine({ ...who, files: DEBIAN }))).toMatchObject({ kind: 'install', packages: both });
      expect(planSetup(machine({ ...who, files: [...DEBIAN, ...CHROMIUM] }))).toEqual({
        kind: 'install',
        packages: ['libvulkan1'],
        why: 'there is no libvulkan.so.1',
      });
      expect(planSetup(machine({ ...who, files: [...DEBIAN, '/usr/bin/google-chrome', LOADER] }))).toEqual({
        kind: 'install',
        packages: ['chromium'],
        why: 'there is no driver of Vulkan, neither of a GPU nor SwiftShader',
      });
    }
  });

  it.each([
    ['nobody may', { files: DEBIAN }, 'apt-get install chromium libvulkan1'],
    ['it is told not to', { files: DEBIAN, isRoot: true, env: { STET_NO_INSTALL: '1' } }, 'apt-get install'],
    ['it is no Debian', { isRoot: true }, 'libvulkan.so.1'],
    ['it is no Linux', { platform: 'darwin' }, 'Install Chrome'],
  ])('says what to install where %s', (_, options, advice) => {
    expect(planSetup(machine(options))).toMatchObject({
      kind: 'advise',
      why: expect.stringContaining('there is no Chromium, Chrome or Edge'),
      advice: expect.stringContaining(advice),
    });
  });

  it.runIf(process.platform === 'linux')('is a script that says what is missing in two lines and succeeds', () => {
    const script = fileURLToPath(new URL('../setup-webgpu.mjs', import.meta.url));
    const env = { PATH: '', STET_NO_INSTALL: '1' };
    const lines = execFileSync(process.execPath, [script], { env, encoding: 'utf8' }).trimEnd().split('\n');
    expect(lines).toHaveLength(2);
    expect(lines[0]).toMatch(/^WebGPU tests will be skipped: there is no Chromium, Chrome or Edge/);
  });
});
