import { isStetError } from '@stet/backend';
import type { StudyContext } from '../study/context.js';
import type { Scenario, ScenarioResult, Unit } from '../study/scenario.js';
import { type Study, sized } from '../study/study.js';
import { matrixBackends } from './backend-names.js';
import { judgeCells, type MatrixMeasure } from './cells.js';
import { openPlace } from './places.js';
import { askedRequests, workOf } from './requests.js';
import { type Case, expectedSeconds, schedulesOf, scheduleWords } from './schedule.js';
import { bySchedule, matrixRow, summary, whereFastDiffers } from './tables.js';
import { failureOf, findingsOf } from './verdict.js';

const TOKENS = { quick: 8, full: 12 };
/** Of a request in words, for whoever reads `request 2`. */
const REQUESTS = 'greedy; nucleus; penalties and min-p; greedy with stop strings; a prompt over several chunks; hot';

export const matrix: Scenario<MatrixMeasure> = {
  name: 'matrix',
  title: 'The same answers on every backend',
  question: 'Are the answers to the same requests equal, bit for bit, whatever runs them, how, and beside whom?',
  units: (study) => casesOf(study).map(unitOf),
  result,
};

function casesOf(study: Study): Case[] {
  return matrixBackends.flatMap((backend) => schedulesOf(backend, study).map((schedule) => ({ backend, schedule })));
}

function keyOf({ backend, schedule }: Case): string {
  return `${backend}: ${scheduleWords(schedule)}`;
}

function unitOf(one: Case): Unit<MatrixMeasure> {
  return { key: keyOf(one), seconds: expectedSeconds(one), run: (context) => measure(context, one) };
}

async function measure(context: StudyContext, { backend, schedule }: Case): Promise<MatrixMeasure> {
  const { study, model } = context;
  try {
    const place = await openPlace(backend, context);
    const asked = askedRequests(model, sized(study, TOKENS));
    return await place.answer(workOf(schedule, asked, model, study.seed));
  } catch (error) {
    if (!isStetError(error)) throw error;
    const { code, message } = error;
    const isMissing = code === 'STET_ERR_BACKEND_UNAVAILABLE' || code === 'STET_ERR_UNSUPPORTED';
    return isMissing ? { kind: 'skipped', reason: message } : { kind: 'failed', error: `${code}: ${message}` };
  }
}

function result(measures: ReadonlyMap<string, MatrixMeasure>, study: Study): ScenarioResult {
  const cells = judgeCells(casesOf(study).map((one) => ({ ...one, measure: measures.get(keyOf(one))! })));
  const failure = failureOf(cells);
  const differing = whereFastDiffers(cells);
  return {
    workload:
      `6 requests (${REQUESTS}), or the first of them where a GPU may be a program, ${sized(study, TOKENS)} tokens each with the ` +
      'log-probabilities of the likeliest two, ' +
      'in batches made up by random requests, half of them deterministic; held against the answers of the first backend, ' +
      'alone and without anything to verify, in each weight format',
    findings: findingsOf(cells),
    tables: [
      { title: 'Backends', rows: summary(cells) },
      { title: 'Backends by schedule', rows: bySchedule(cells) },
      ...(differing.length > 0 ? [{ title: 'Where fast answers have other tokens', rows: differing }] : []),
    ],
    charts: [],
    json: { rows: cells.map(matrixRow) },
    ...(failure !== undefined && { failure }),
  };
}
