// Builds build/stet_cpu.node from native/*.cpp and kernels/cpu/*.cpp by calling the C++ compiler directly.
// Objects are kept under build/objects and are compiled again only when the file, a header, a flag or the compiler
// changed. Where there is no compiler (or STET_NATIVE=off) it writes build/unavailable.json, says so in one line and
// succeeds; a compiler that fails is an error.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const packageFolder = fileURLToPath(new URL('..', import.meta.url));
const buildFolder = join(packageFolder, 'build');
const objectFolder = join(buildFolder, 'objects');
const addonFile = join(buildFolder, 'stet_cpu.node');
const stampFile = join(buildFolder, 'stamp.txt');
const unavailableFile = join(buildFolder, 'unavailable.json');
const nativeFolder = join(packageFolder, 'native');
const exportMap = join(nativeFolder, 'exports.map');
const kernelFolder = fileURLToPath(new URL('../../../kernels/cpu', import.meta.url));

const commonFlags = [
  '-O3',
  '-std=c++20',
  '-fPIC',
  '-fvisibility=hidden',
  '-fvisibility-inlines-hidden',
  '-ffp-contract=off',
  '-pthread',
  '-Wall',
  '-Wextra',
];
const avx2 = ['-mavx2', '-mfma', '-mf16c'];
// GCC 12 warns about its own AVX-512 header, whose undefined vectors are initialised by themselves.
const avx512 = [
  ...avx2,
  '-Wno-uninitialized',
  '-Wno-maybe-uninitialized',
  '-mavx512f',
  '-mavx512bw',
  '-mavx512vl',
  '-mavx512dq',
];
const avx512bf16 = [...avx512, '-mavx512bf16'];

/** File suffix → flags, as kernels/README.md says; files with such a suffix are compiled on x86-64 alone. */
const suffixFlags = {
  '.avx2.cpp': avx2,
  '.avxvnni.cpp': [...avx2, '-mavxvnni'],
  '.avx512.cpp': avx512,
  '.avx512vnni.cpp': [...avx512, '-mavx512vnni'],
  '.avx512bf16.cpp': avx512bf16,
  '.amxbf16.cpp': [...avx512bf16, '-mamx-tile', '-mamx-bf16'],
  '.amxint8.cpp': [...avx512, '-mavx512vnni', '-mamx-tile', '-mamx-int8'],
};

/** Builds what is out of date. Resolves to the reason where this machine cannot build, to null after success. */
export async function buildNative({ log = console.log } = {}) {
  mkdirSync(objectFolder, { recursive: true });
  const toolchain = findToolchain();
  if (toolchain.reason) {
    rmSync(addonFile, { force: true });
    rmSync(stampFile, { force: true });
    writeFileSync(unavailableFile, `${JSON.stringify({ reason: toolchain.reason, fix: toolchain.fix }, null, 2)}\n`);
    log(`backend-cpu: native kernels are not built: ${toolchain.reason} ${toolchain.fix}`);
    return toolchain.reason;
  }
  const units = compileUnits(toolchain);
  const stamp = stampOf(units);
  if (existsSync(addonFile) && readStamp() === stamp) return null;

  const started = performance.now();
  const stale = units.filter((unit) => !existsSync(unit.object));
  await compileAll(toolchain, stale);
  await link(toolchain, units);
  for (const file of readdirSync(objectFolder)) {
    if (!units.some((unit) => basename(unit.object) === file)) rmSync(join(objectFolder, file));
  }
  rmSync(unavailableFile, { force: true });
  writeFileSync(stampFile, stamp);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  log(`backend-cpu: compiled ${stale.length} of ${units.length} files and linked stet_cpu.node in ${seconds} s`);
  return null;
}

/** Whether build/ belongs to the sources of now: `current`, `unavailable` (with its reason) or `stale`. */
export function buildState() {
  const toolchain = findToolchain();
  if (toolchain.reason) return { kind: 'unavailable', reason: toolchain.reason };
  const stamp = stampOf(compileUnits(toolchain));
  return { kind: existsSync(addonFile) && readStamp() === stamp ? 'current' : 'stale' };
}

function readStamp() {
  return existsSync(stampFile) ? readFileSync(stampFile, 'utf8') : null;
}

function findToolchain() {
  if (process.env.STET_NATIVE === 'off') {
    return { reason: 'STET_NATIVE is off.', fix: 'Unset it and run `npm run build`.' };
  }
  if (process.platform !== 'linux') {
    return {
      reason: `the native runtime supports Linux, this is ${process.platform}.`,
      fix: 'Choose `--backend reference`.',
    };
  }
  if (process.arch !== 'x64' && process.arch !== 'arm64') {
    return {
      reason: `the native runtime supports x64 and arm64, this is ${process.arch}.`,
      fix: 'Choose `--backend reference`.',
    };
  }
  const candidates = process.env.CXX ? [process.env.CXX] : ['g++', 'clang++'];
  for (const command of candidates) {
    const result = spawnSync(command, ['--version'], { encoding: 'utf8' });
    if (result.status === 0) return { command, version: result.stdout.split('\n')[0].trim() };
  }
  return {
    reason: `no C++ compiler was found (tried ${candidates.join(', ')}).`,
    fix: 'Install g++ 11 or newer (Debian: `apt install g++`) and run `npm run build`.',
  };
}

function compileUnits(toolchain) {
  const units = [];
  for (const folder of [nativeFolder, kernelFolder]) {
    for (const name of readdirSync(folder).sort()) {
      if (!name.endsWith('.cpp')) continue;
      const suffix = Object.keys(suffixFlags).find((candidate) => name.endsWith(candidate));
      if (suffix && process.arch !== 'x64') continue;
      const flags = [...commonFlags, ...includeFlags(toolchain), ...(suffix ? suffixFlags[suffix] : [])];
      const source = join(folder, name);
      const hash = createHash('sha256').update(JSON.stringify([toolchain.command, toolchain.version, flags]));
      for (const file of withHeaders(source)) hash.update(basename(file)).update('\0').update(readFileSync(file));
      const key = hash.digest('hex');
      const object = join(objectFolder, `${basename(folder)}-${basename(name, '.cpp')}-${key.slice(0, 20)}.o`);
      units.push({ source, flags, key, object });
    }
  }
  return units;
}

/** A file and the headers of ours that it includes, directly or not. */
function withHeaders(source) {
  const files = [source];
  for (const file of files) {
    for (const [, name] of readFileSync(file, 'utf8').matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)) {
      const header = [join(dirname(file), name), join(kernelFolder, name)].find((path) => existsSync(path));
      if (header && !files.includes(header)) files.push(header);
    }
  }
  return files;
}

function includeFlags(toolchain) {
  const { include_dir: nodeHeaders } = createRequire(import.meta.url)('node-api-headers');
  const compiler = toolchain.version.replaceAll('"', '');
  return ['-isystem', nodeHeaders, '-iquote', kernelFolder, '-DNAPI_VERSION=8', `-DSTET_COMPILER="${compiler}"`];
}

function stampOf(units) {
  const hash = createHash('sha256').update(readFileSync(exportMap));
  for (const unit of units) hash.update(unit.key);
  return hash.digest('hex');
}

async function compileAll(toolchain, units) {
  const queue = [...units];
  const worker = async () => {
    for (let unit = queue.shift(); unit; unit = queue.shift()) {
      const partial = `${unit.object}.${process.pid}`;
      await run(toolchain.command, [...unit.flags, '-c', unit.source, '-o', partial]);
      renameSync(partial, unit.object);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
}

async function link(toolchain, units) {
  const flags = ['-shared', '-pthread', `-Wl,--version-script=${exportMap}`, '-Wl,-z,relro,-z,now'];
  // One binary that asks nothing of the machine's C++ runtime, where the compiler brings the static one.
  if (hasStaticLibrary(toolchain, 'libstdc++.a')) flags.push('-static-libstdc++', '-static-libgcc');
  const partial = `${addonFile}.${process.pid}`;
  await run(toolchain.command, [...flags, ...units.map((unit) => unit.object), '-o', partial]);
  try {
    // A shared object links with symbols missing; only loading it shows.
    process.dlopen({ exports: {} }, partial);
  } catch (error) {
    rmSync(partial, { force: true });
    throw new Error(`the addon was built but does not load: ${error.message}`);
  }
  // A rename, so that a process that has the old addon loaded keeps its file.
  renameSync(partial, addonFile);
}

function hasStaticLibrary(toolchain, name) {
  const result = spawnSync(toolchain.command, [`-print-file-name=${name}`], { encoding: 'utf8' });
  return result.status === 0 && result.stdout.trim().startsWith('/');
}

function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'] });
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`${command} failed with exit code ${code} on: ${args.filter((a) => a.endsWith('.cpp'))}`));
    });
  });
}

if (process.argv[1] && fileURLToPath(import.meta.url) === process.argv[1]) {
  try {
    await buildNative();
  } catch (error) {
    console.error(`backend-cpu: ${error.message}`);
    process.exitCode = 1;
  }
}
