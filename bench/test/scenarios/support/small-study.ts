import type { StudyContext } from '../../../src/study/context.js';
import { Engines } from '../../../src/study/engines.js';
import type { Study } from '../../../src/study/study.js';
import { readStudyModel } from '../../../src/study/study-model.js';

export const study: Study = {
  size: 'quick',
  model: 'tales',
  backend: 'cpu',
  fast: 'native',
  threads: 1,
  seed: 42,
};

/** Runs a few units' worth of something on the embedded model, and closes what it opened. */
export async function inSmallStudy<T>(run: (context: StudyContext) => Promise<T>): Promise<T> {
  const engines = new Engines(study);
  const context: StudyContext = {
    study,
    model: await readStudyModel(study.model),
    signal: new AbortController().signal,
    engine: (spec) => engines.engine(spec),
    backend: (size) => engines.backend(size),
    keep: (name, open) => engines.keep(name, open),
    measured: (key) => {
      throw new Error(`${key} was not measured`);
    },
    log: () => {},
  };
  try {
    return await run(context);
  } finally {
    await engines.close();
  }
}
