import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { kernelsFolder } from '../folders.js';

const run = promisify(execFile);

/** At most, a second: bytes read, and operations (a multiplication and an addition are two). 0 where there is no such instruction. */
export interface Limits {
  readonly threads: number;
  readonly bytesPerSecond: number;
  readonly f32: number;
  /** Of the bf16 dot or of tiles. */
  readonly bf16: number;
  /** Of byte dots or of tiles. */
  readonly int8: number;
  /** Of byte dots alone. */
  readonly vnni: number;
}

export interface MachineLimits {
  readonly one: Limits;
  readonly all: Limits;
}

/** Measures what the machine can do, by a program that it compiles. */
export interface MachineProbe {
  measure(): Promise<MachineLimits>;
  close(): Promise<void>;
}

/** `workingSetBytes`: how much is read again and again, e.g. the weights of a model. Needs a C++ compiler, g++ or $CXX. */
export async function createMachineProbe(threads: number, workingSetBytes: number): Promise<MachineProbe> {
  const folder = await mkdtemp(join(tmpdir(), 'stet-machine-'));
  const program = join(folder, 'machine');
  const sources = ['bench/machine.cpp', 'features.cpp'].map((name) => fileURLToPath(new URL(name, kernelsFolder)));
  // biome-ignore lint/complexity/useLiteralKeys: index signatures are read by a key
  const compiler = process.env['CXX'] ?? 'g++';
  try {
    await run(compiler, ['-O2', '-std=c++20', '-pthread', ...sources, '-o', program]);
  } catch (error) {
    await rm(folder, { recursive: true });
    throw new Error(
      `the program that measures the machine does not compile with ${compiler}; give another one in CXX`,
      {
        cause: error,
      },
    );
  }
  const megabytes = Math.max(1, Math.round(workingSetBytes / 2 ** 20));
  return {
    measure: async () => JSON.parse((await run(program, [`${threads}`, `${megabytes}`])).stdout) as MachineLimits,
    close: () => rm(folder, { recursive: true }),
  };
}

/** The best of several measurements: what is slower was disturbed. */
export function bestLimits(measured: readonly MachineLimits[]): MachineLimits {
  const best = (limits: readonly Limits[]): Limits => ({
    threads: limits[0]!.threads,
    bytesPerSecond: Math.max(...limits.map((one) => one.bytesPerSecond)),
    f32: Math.max(...limits.map((one) => one.f32)),
    bf16: Math.max(...limits.map((one) => one.bf16)),
    int8: Math.max(...limits.map((one) => one.int8)),
    vnni: Math.max(...limits.map((one) => one.vnni)),
  });
  return { one: best(measured.map(({ one }) => one)), all: best(measured.map(({ all }) => all)) };
}
