import { seededUniform } from './random.js';
import type { StudyModel } from './study/study-model.js';

/** Prompt `index` of an endless list that `seed` names: so many tokens from anywhere in one of the texts, which take turns. */
export function textSlice(
  { texts }: Pick<StudyModel, 'texts'>,
  tokenCount: number,
  seed: number,
  index: number,
): number[] {
  const all = [...texts.values()];
  const text = all[index % all.length]!;
  const uniform = seededUniform(seed * 1_000_003 + index);
  if (text.length < tokenCount) throw new RangeError(`a text of ${text.length} tokens has no ${tokenCount} of them`);
  const start = Math.floor(uniform() * (text.length - tokenCount + 1));
  return text.slice(start, start + tokenCount);
}
