import type { StudyFile } from '../study/study-file.js';
import { fullFigure, shortFigure } from './figures.js';

/** What a person has to know of a run before believing it. */
export interface Caution {
  readonly title: string;
  readonly text: string;
}

/** Programs that stand in for a GPU. */
const SOFTWARE_GPU = /swiftshader|llvmpipe|lavapipe|softpipe|microsoft basic render/i;
/** Runnable processes for each core beside which times are not to be believed. */
const BUSY = 0.75;

export function cautionsOf({ study, device, loadBefore, machine }: StudyFile): Caution[] {
  const cautions: Caution[] = [];
  if (study.fast === 'batch-shaped')
    cautions.push({
      title: 'Study mode, not a speed',
      text:
        'The fast schedule ran batch-shaped: it reduces in an order that depends on the batch, as GPU libraries do, so that what they do can be seen on a CPU. ' +
        'What differs, and how often, is the subject; how fast it runs says nothing about Stet.',
    });
  if (SOFTWARE_GPU.test(device))
    cautions.push({
      title: 'The GPU is a program on the CPU',
      text: `WebGPU ran on ${device}. Equal and unequal bits count as on any device; times are those of an emulation.`,
    });
  if (loadBefore > BUSY * machine.cores)
    cautions.push({
      title: 'The machine was busy',
      text:
        `Before the run ${shortFigure(loadBefore)} processes were runnable on ${machine.cores} cores. What is compared took turns, so ratios suffer least; ` +
        'believe no absolute time.',
    });
  return cautions;
}

/** What was run and on what, in the order of a page. */
export function factsOf(file: StudyFile): readonly (readonly [name: string, value: string])[] {
  const { study, model, device, machine, versions } = file;
  const { size, backend, fast, threads, seed, rounds, qps, dataset } = study;
  return [
    ['Study', `${size}, seed ${seed}`],
    ...(rounds === undefined ? [] : [['Rounds', String(rounds)] as const]),
    ...(qps ? [['Requests per second', qps.join(', ')] as const] : []),
    ...(dataset === undefined ? [] : [['Conversations', dataset] as const]),
    ['Model', `${model.name}, ${count(model.parameterCount)} parameters, context ${fullFigure(model.contextLength)}`],
    ['Backend', `${backend}${fast === 'native' ? '' : `, fast schedule ${fast}`}, ${threads} threads`],
    ['Device', device],
    ['Machine', `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.os}`],
    [
      'Versions',
      Object.entries(versions)
        .map((pair) => pair.join(' '))
        .join(', '),
    ],
    ['Date', `${file.date.slice(0, 10)} ${file.date.slice(11, 16)} UTC`],
    ['Load before', `${shortFigure(file.loadBefore)} runnable processes`],
    ['Took', duration(file.elapsedSeconds)],
    ['Fingerprint', model.fingerprint],
  ];
}

export function duration(seconds: number): string {
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function count(value: number): string {
  if (value >= 1e9) return `${shortFigure(value / 1e9)} billion`;
  return value >= 1e6 ? `${shortFigure(value / 1e6)} million` : fullFigure(value);
}
