import { createEngine, type GenerateEvent, type GenerateRequest, type Receipt } from '@stet/engine';
import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { talesFolder, talesName } from '@stet/tales';

export interface Answer {
  readonly text: string;
  readonly hash: string;
  readonly receipt: Receipt;
}

/** What the definition of the numerics says, out of the browser. */
export async function answerInNode(request: GenerateRequest): Promise<Answer> {
  const model = loadModelFolder(talesFolder, { name: talesName });
  await using engine = await createEngine({ model, backend: createReferenceBackend });
  const events: GenerateEvent[] = [];
  for await (const event of engine.generate(request)) events.push(event);
  const commits = events.filter((event) => event.type === 'commit');
  const done = events.at(-1);
  if (done?.type !== 'done' || !done.receipt) throw new Error('a deterministic answer has a receipt');
  return {
    text: commits.map((commit) => commit.text).join(''),
    hash: commits.at(-1)?.hash ?? '',
    receipt: done.receipt,
  };
}
