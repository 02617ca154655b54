import { readFileSync, writeFileSync } from 'node:fs';
import { arch, cpus, platform, release, totalmem } from 'node:os';
import { StetError } from '@stet/backend';
import { whatIsWrong } from './check-study-file.js';
import type { Json, ScenarioResult } from './scenario.js';
import type { Study } from './study.js';

export const STUDY_SCHEMA = 'stet-study-1';

/** One run with everything that is needed to read it later, compare it, or draw its report anew. */
export interface StudyFile {
  readonly schema: typeof STUDY_SCHEMA;
  /** When it ended, ISO 8601. */
  readonly date: string;
  readonly study: Study;
  readonly model: {
    readonly name: string;
    readonly fingerprint: string;
    readonly contextLength: number;
    readonly parameterCount: number;
  };
  /** What the backend says of its device. */
  readonly device: string;
  readonly machine: Machine;
  readonly versions: Readonly<Record<string, string>>;
  /** Runnable processes in the minute before. */
  readonly loadBefore: number;
  readonly elapsedSeconds: number;
  readonly scenarios: readonly StudyPart[];
}

/** One scenario's part of a run. */
export interface StudyPart extends ScenarioResult {
  readonly name: string;
  readonly title: string;
  readonly question: string;
  readonly paperFigure?: string;
  /** What its units measured, by key. */
  readonly measures: Readonly<Record<string, Json>>;
}

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly os: string;
}

export function thisMachine(): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    os: `${platform()} ${release()} ${arch()}`,
  };
}

export function writeStudyFile(file: string | URL, study: StudyFile): void {
  writeFileSync(file, `${JSON.stringify(study)}\n`);
}

/** Throws a `StetError` with `STET_ERR_BAD_RESULTS` that says what is wrong with the file. */
export function readStudyFile(file: string | URL): StudyFile {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw badResults(file, cause instanceof Error ? cause.message : String(cause), cause);
  }
  if (typeof value !== 'object' || value === null || !('schema' in value) || value.schema !== STUDY_SCHEMA)
    throw badResults(file, `its schema is not ${STUDY_SCHEMA}`);
  const wrong = whatIsWrong(value);
  if (wrong !== undefined) throw badResults(file, wrong);
  return value as StudyFile;
}

function badResults(file: string | URL, why: string, cause?: unknown): StetError {
  return new StetError('STET_ERR_BAD_RESULTS', `${file} is no file of results: ${why}`, { cause });
}
