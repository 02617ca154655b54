import type { BenchOptions } from '../options.js';

/** `report FILE [--out FOLDER]`: the report of a file of results, made anew. Resolves to the exit status. */
export async function reportCommand(_files: readonly string[], _options: BenchOptions): Promise<number> {
  throw new Error('not yet');
}

/** `compare A.json B.json [--out FOLDER]`: what B changed, by ratio. Resolves to the exit status. */
export async function compareCommand(_files: readonly string[], _options: BenchOptions): Promise<number> {
  throw new Error('not yet');
}
