import type { ConformanceCase, ConformanceContext } from '../case.js';
import { expectEqualAnswers, feed, forward } from '../drive.js';
import { random } from '../random.js';

export const overwriteCases: ConformanceCase[] = [
  {
    group: 'overwrite',
    name: 'a canonical pass replaces candidate K/V inside a block',
    scope: 'eachModel',
    run: (context) => decodeVerify(context, { promptTokens: 18, windowTokens: 5, endTokens: 32, wrongFrom: 5 }),
  },
  {
    group: 'overwrite',
    name: 'a canonical pass replaces candidate K/V across blocks',
    scope: 'eachModel',
    run: (context) => decodeVerify(context, { promptTokens: 9, windowTokens: 33, endTokens: 75, wrongFrom: 33 }),
  },
  {
    group: 'overwrite',
    name: 'wrong candidates inside a block leave no trace',
    scope: 'eachModel',
    run: (context) => decodeVerify(context, { promptTokens: 18, windowTokens: 6, endTokens: 31, wrongFrom: 2 }),
  },
  {
    group: 'overwrite',
    name: 'wrong candidates across blocks leave no trace',
    scope: 'eachModel',
    run: (context) => decodeVerify(context, { promptTokens: 12, windowTokens: 24, endTokens: 75, wrongFrom: 7 }),
  },
  {
    group: 'overwrite',
    name: 'the canonical pass of a window may be repeated',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const sequence = { tokens: sequences[0]!, blocks: [8, 3, 5, 1, 2] };
      await feed(backend, 'canonical', sequence, { end: 20, want: 'none' });
      await feed(backend, 'fast', sequence, { first: 20, end: 50, chunk: () => 1 });
      for (const round of ['first', 'second']) {
        const answers = await feed(backend, 'canonical', sequence, { first: 20, end: 50 });
        expectEqualAnswers(answers, await solo(0), `${round} pass`);
      }
      expectEqualAnswers(await feed(backend, 'canonical', sequence, { first: 50 }), await solo(0), 'what follows');
    },
  },
];

interface Verification {
  readonly promptTokens: number;
  readonly windowTokens: number;
  readonly endTokens: number;
  /** Candidates of a window from this one on are wrong tokens. */
  readonly wrongFrom: number;
}

/**
 * Generates sequence 0 as decode-verify-rollback would: candidates one by one from the fast schedule, then one
 * canonical pass over the right ones, rollback of the rest, and so on; another sequence decodes in the same steps.
 */
async function decodeVerify({ load, sequences, solo, model }: ConformanceContext, how: Verification): Promise<void> {
  const { promptTokens, windowTokens, endTokens, wrongFrom } = how;
  const backend = await load();
  const right = sequences[0]!;
  const blocks = [21, 6, 30, 7, 2];
  const other = { tokens: sequences[5]!, blocks: [11, 12, 13] };
  const draw = random(promptTokens);
  await feed(backend, 'canonical', { tokens: right, blocks }, { end: promptTokens, want: 'none' });
  let otherCount = 0;
  for (let committed = promptTokens; committed < endTokens; ) {
    const right1 = right.slice(committed, Math.min(committed + windowTokens, endTokens));
    const candidates = right1.map((token, i) =>
      i < wrongFrom ? token : (token + draw.between(1, model.plan.vocabSize - 1)) % model.plan.vocabSize,
    );
    for (const [i, token] of candidates.entries()) {
      await forward(backend, { fast: [{ tokens: [token], position: committed + i, blocks, want: 'argmax' }] });
    }
    const tokens = right1.slice(0, wrongFrom);
    const otherTokens = other.tokens.slice(otherCount, otherCount + 1);
    const step = {
      canonical: [{ tokens, position: committed, blocks }],
      ...(otherTokens.length > 0 && { fast: [{ tokens: otherTokens, position: otherCount, blocks: other.blocks }] }),
    };
    const { canonical } = await forward(backend, step);
    expectEqualAnswers(canonical[0]!, await solo(0), `window at ${committed}`);
    committed += tokens.length;
    otherCount += otherTokens.length;
  }
  const last = await feed(backend, 'canonical', { tokens: right, blocks }, { first: endTokens - 1, end: endTokens });
  expectEqualAnswers(last, await solo(0), 'the last position, decoded after all windows');
}
