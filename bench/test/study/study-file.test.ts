import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readStudyFile, type StudyFile, writeStudyFile } from '../../src/study/study-file.js';
import { charts, studyFile, timedPart } from '../report/study-files.js';

describe('a file of results', () => {
  let folder: string;
  let file: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'stet-results-'));
    file = join(folder, 'results.json');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('is read as it was written', () => {
    const study = studyFile({ scenarios: [timedPart(1, { charts, failure: 'something' })] });
    writeStudyFile(file, study);
    expect(readStudyFile(file)).toEqual(study);
  });

  it('may have figures that nothing was measured for', () => {
    const [comparison] = timedPart(1).comparisons!;
    const rows = [{ case: 'none', ms: Number.NaN }];
    const part = timedPart(1, {
      comparisons: [{ ...comparison!, ours: Number.NaN }],
      tables: [{ title: 'Some', rows }],
    });
    writeStudyFile(file, studyFile({ scenarios: [part] }));
    expect(readStudyFile(file).scenarios[0]).toMatchObject({
      comparisons: [{ ours: null }],
      tables: [{ rows: [{ ms: null }] }],
    });
  });

  it.each<[string, unknown, string]>([
    ['text', 'hello', 'JSON'],
    ['another schema', { schema: 'other' }, 'its schema is not stet-study-1'],
    ['no study', { ...studyFile(), study: undefined }, 'study is not an object'],
    ['no scenarios', { ...studyFile(), scenarios: 3 }, 'scenarios is not a list'],
    [
      'a size that is none',
      { ...studyFile(), study: { ...studyFile().study, size: 'big' } },
      'study.size is not one of quick, full',
    ],
    ['a finding that is none', withPart({ findings: ['one', 2] }), 'scenarios[0].findings[1] is not a text'],
    [
      'a cell that is none',
      withPart({ tables: [{ title: 'x', rows: [{ a: {} }] }] }),
      'scenarios[0].tables[0].rows[0].a is not a text or a number',
    ],
    [
      'a name that leads elsewhere',
      withPart({ charts: [{ ...charts[0], name: '../x' }] }),
      'scenarios[0].charts[0].name is not lower case with hyphens',
    ],
    [
      'a chart without a column',
      withPart({ charts: [{ ...charts[0], rows: [{ share: 1, policy: 'x' }] }] }),
      'scenarios[0].charts[0].rows lack ratio',
    ],
    [
      'half a range',
      withPart({ comparisons: [{ ...timedPart(1).comparisons![0], theirs: [1] }] }),
      'scenarios[0].comparisons[0].theirs is not a number or two',
    ],
  ])('is refused with its fault where it is %s', (_, value, why) => {
    writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value));
    const error = thrownBy(() => readStudyFile(file));
    expect(error).toMatchObject({ code: 'STET_ERR_BAD_RESULTS' });
    expect(error).toMatchObject({ message: expect.stringContaining(`${file} is no file of results: `) });
    expect(error).toMatchObject({ message: expect.stringContaining(why) });
  });

  it('is refused where it is not there', () => {
    expect(thrownBy(() => readStudyFile(file))).toMatchObject({
      code: 'STET_ERR_BAD_RESULTS',
      cause: { code: 'ENOENT' },
    });
  });
});

function withPart(changes: Record<string, unknown>): unknown {
  const study: StudyFile = studyFile();
  return { ...study, scenarios: [{ ...study.scenarios[0], ...changes }] };
}

function thrownBy(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
