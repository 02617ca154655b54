import { blocksFor, type ConformanceCase } from '../case.js';
import { feed } from '../drive.js';
import { expectEqual, expectEqualBits } from '../equal-bits.js';
import { random } from '../random.js';
import { type ModelVector, modelVectors } from '../vectors.js';

/** The recorded logits of whole models: what `canonical: 'portable'` means. */
export const goldenCases: ConformanceCase[] = modelVectors().map((vector) => ({
  group: 'golden',
  name: `the model ${vector.name} gives the recorded logits in any chunks`,
  scope: 'once',
  formats: vector.formats,
  async run({ load }) {
    const { plan, weights, blockSize, tokens } = vector;
    const blockCount = 2 * Math.ceil(tokens.length / blockSize) + 2;
    const backend = await load({ plan, weights, blockSize, blockCount, maxRows: tokens.length });
    expectEqual(backend.info.canonical, 'portable', 'info.canonical');
    const draw = random(tokens.length);
    const chunkings: [string, () => number][] = [
      ['prefill', () => tokens.length],
      ['decode', () => 1],
      ['random chunks', () => draw.between(1, 20)],
    ];
    for (const [name, chunk] of chunkings) {
      const blocks = draw.shuffle(blocksFor(tokens.length, 1, blockSize));
      const answers = await feed(backend, 'canonical', { tokens: [...tokens], blocks }, { chunk });
      expectRecorded(
        answers.map((answer) => answer.logits!),
        vector,
        name,
      );
    }
  },
}));

function expectRecorded(logits: readonly Float32Array[], vector: ModelVector, where: string): void {
  const { vocabSize } = vector.plan;
  vector.rows.forEach((position, i) => {
    const recorded = vector.logits.subarray(i * vocabSize, (i + 1) * vocabSize);
    expectEqualBits(logits[position]!, recorded, `${where}, position ${position}: logits`);
  });
}
