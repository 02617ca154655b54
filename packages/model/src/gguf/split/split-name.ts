/** Most files of one model: each stays open. */
export const MAX_SPLITS = 1000;

/** One of the files that a model was split into. */
export interface SplitName {
  readonly prefix: string;
  /** From 1. */
  readonly number: number;
  readonly count: number;
}

/** The parts of a name like `model-00002-of-00003.gguf`; undefined where the name is another. */
export function parseSplitName(name: string): SplitName | undefined {
  const [, prefix, number, count] = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/.exec(name) ?? [];
  if (prefix === undefined) return undefined;
  return { prefix, number: Number(number), count: Number(count) };
}

/** The names of all files of a split model, in order. */
export function splitNames({ prefix, count }: SplitName): string[] {
  const digits = (value: number): string => String(value).padStart(5, '0');
  return Array.from({ length: count }, (_, i) => `${prefix}-${digits(i + 1)}-of-${digits(count)}.gguf`);
}
