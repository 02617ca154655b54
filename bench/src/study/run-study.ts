import { assert, NUMERICS_ID } from '@stet/backend';
import { SAMPLER_VERSION } from '@stet/scheduler';
import { machineLoad } from '../result.js';
import type { StudyContext } from './context.js';
import { Engines } from './engines.js';
import { Journal } from './journal.js';
import type { Progress } from './progress.js';
import type { Json, Scenario, Unit } from './scenario.js';
import type { Study } from './study.js';
import { STUDY_SCHEMA, type StudyFile, type StudyPart, thisMachine } from './study-file.js';
import { readStudyModel } from './study-model.js';

export interface RunOptions {
  readonly scenarios: readonly Scenario[];
  readonly study: Study;
  /** Where what is done is kept until all is. */
  readonly journal: string;
  /** Forgets what an interrupted run left. */
  readonly isFresh: boolean;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

/** The context of all scenarios, without what belongs to one. */
type SharedContext = Omit<StudyContext, 'measured'>;

interface Task {
  readonly scenario: Scenario;
  readonly units: readonly Unit[];
}

/** Runs every unit that no earlier run has done. Rejects with the signal's reason when it is interrupted; what was done is kept. */
export async function runStudy(options: RunOptions): Promise<StudyFile> {
  const { scenarios, study, progress, signal } = options;
  const loadBefore = machineLoad();
  const startMs = performance.now();
  const model = await readStudyModel(study.model);
  const machine = thisMachine();
  const versions = { node: process.versions.node, numerics: NUMERICS_ID, sampler: String(SAMPLER_VERSION) };
  const engines = new Engines(study);
  try {
    const { device } = (await engines.engine({ policy: 'direct' })).info;
    const identity = { study: { ...study }, fingerprint: model.fingerprint, device, cpu: machine.cpu, ...versions };
    const journal = Journal.open(options.journal, identity, options.isFresh);
    const tasks: Task[] = [];
    for (const scenario of scenarios) tasks.push({ scenario, units: await scenario.units(study) });
    if (journal.size > 0) progress.log(`going on with an interrupted run: ${journal.size} units are done`);
    const context: SharedContext = {
      study,
      model,
      signal,
      engine: (spec) => engines.engine(spec),
      backend: (size) => engines.backend(size),
      keep: (name, open) => engines.keep(name, open),
      log: (line) => progress.log(line),
    };
    beginProgress(progress, tasks, journal);
    const parts: StudyPart[] = [];
    for (const { scenario, units } of tasks) {
      const measures = await runUnits({ scenario, units }, context, journal, progress);
      await engines.closeAll();
      parts.push(partOf(scenario, measures, study));
    }
    return {
      schema: STUDY_SCHEMA,
      date: new Date().toISOString(),
      study,
      model: {
        name: model.name,
        fingerprint: model.fingerprint,
        contextLength: model.contextLength,
        parameterCount: model.parameterCount,
      },
      device,
      machine,
      versions,
      loadBefore,
      elapsedSeconds: Math.round((performance.now() - startMs) / 1000),
      scenarios: parts,
    };
  } finally {
    progress.end();
    await engines.close();
  }
}

/** The part of a run that a scenario makes of its measures. */
export function partOf(scenario: Scenario, measures: ReadonlyMap<string, Json>, study: Study): StudyPart {
  const { name, title, question, paperFigure } = scenario;
  return {
    name,
    title,
    question,
    ...(paperFigure !== undefined && { paperFigure }),
    ...scenario.result(measures, study),
    measures: Object.fromEntries(measures),
  };
}

async function runUnits(
  { scenario, units }: Task,
  shared: SharedContext,
  journal: Journal,
  progress: Progress,
): Promise<Map<string, Json>> {
  const measures = new Map<string, Json>();
  const measured = (key: string): Json => {
    const measure = measures.get(key);
    assert(measure !== undefined, `${scenario.name} asks for ${key}, which comes later`);
    return measure;
  };
  const context: StudyContext = { ...shared, measured };
  for (const unit of units) {
    let measure = journal.find(scenario.name, unit.key);
    if (measure === undefined) {
      progress.unit(`${scenario.name}: ${unit.key}`);
      context.signal.throwIfAborted();
      measure = await unit.run(context);
      // It may have been cut short.
      context.signal.throwIfAborted();
      journal.add(scenario.name, unit.key, measure);
      progress.done(unit.seconds);
    }
    measures.set(unit.key, measure);
  }
  return measures;
}

function beginProgress(progress: Progress, tasks: readonly Task[], journal: Journal): void {
  const all = tasks.flatMap(({ scenario, units }) => units.map((unit) => ({ name: scenario.name, ...unit })));
  const secondsOf = (units: readonly Unit[]) => units.reduce((sum, { seconds }) => sum + seconds, 0);
  progress.begin(secondsOf(all), secondsOf(all.filter(({ name, key }) => journal.find(name, key) !== undefined)));
}
