import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { talesFolder, talesName } from '@stet/tales';
import { answerFormats } from './answer-cases.js';
import { type Answer, answersOf } from './answers.js';

/** What every backend must answer, from the definition. */
export async function referenceAnswers(): Promise<Record<string, Answer>> {
  const answers: Record<string, Answer> = {};
  for (const format of answerFormats) {
    Object.assign(
      answers,
      await answersOf(format, {
        backend: createReferenceBackend,
        open: () => loadModelFolder(talesFolder, { name: talesName, format }),
        policy: 'direct',
        company: 'alone',
      }),
    );
  }
  return answers;
}
