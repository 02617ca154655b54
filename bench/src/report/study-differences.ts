import type { Study } from '../study/study.js';
import type { StudyFile } from '../study/study-file.js';

/** Something that two files of results disagree about. */
export interface Difference {
  readonly what: string;
  readonly a: string;
  readonly b: string;
}

/** What makes two runs different studies, whose figures say nothing about each other. */
export function studyDifferences(a: StudyFile, b: StudyFile): Difference[] {
  // The path of a model or of conversations is that of a machine; the model itself is told by its fingerprint.
  const names: readonly (keyof Study)[] = ['size', 'backend', 'fast', 'threads', 'seed', 'rounds', 'qps', 'dataset'];
  return differing([
    ['model', a.model.name, b.model.name],
    ['fingerprint', a.model.fingerprint, b.model.fingerprint],
    ...names.map((name) => [name, tell(a.study[name]), tell(b.study[name])] as const),
  ]);
}

/** Where and when the same study ran. */
export function circumstances(a: StudyFile, b: StudyFile): Difference[] {
  const versions = [...new Set([...Object.keys(a.versions), ...Object.keys(b.versions)])];
  return differing([
    ['date', a.date, b.date],
    ['device', a.device, b.device],
    ['cpu', a.machine.cpu, b.machine.cpu],
    ['cores', tell(a.machine.cores), tell(b.machine.cores)],
    ['memory, GiB', tell(a.machine.memoryGiB), tell(b.machine.memoryGiB)],
    ['system', a.machine.os, b.machine.os],
    ...versions.map((name) => [`version of ${name}`, tell(a.versions[name]), tell(b.versions[name])] as const),
    ['load before', tell(a.loadBefore), tell(b.loadBefore)],
  ]);
}

function differing(all: readonly (readonly [what: string, a: string, b: string])[]): Difference[] {
  return all.filter(([, a, b]) => a !== b).map(([what, a, b]) => ({ what, a, b }));
}

function tell(value: unknown): string {
  return value === undefined ? 'none' : String(value);
}
