import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isStetError, NUMERICS_ID } from '@stet/backend';
import { type GoldenModel, goldenModels } from './models/golden.js';
import { markdownTable, writeSection } from './models/markdown.js';
import { type MeasuredModel, type ModelRow, measureModel, refusedRow } from './models/measure-model.js';
import { measurePrompts, measureTexts, type TextRow } from './models/measure-texts.js';
import { measureTypes } from './models/measure-types.js';
import type { BenchResult } from './result.js';

export interface ModelsOptions {
  /** A folder with models and their recorded answers. */
  readonly models?: string;
  readonly save?: boolean;
}

/**
 * Every model of a folder against its recorded answers, every tokenizer against its recorded ids, every block of
 * GGUF's tensor types against its recorded values. With `save`, docs/MODELS.md gets the tables.
 */
export async function measureModels({ models: folder, save }: ModelsOptions): Promise<BenchResult> {
  if (folder === undefined || !existsSync(folder)) {
    throw new Error('give --models FOLDER: a folder of models with a golden.json beside each');
  }
  const goldens = goldenModels(folder);
  const rows: ModelRow[] = [];
  let device = '';
  for (const golden of goldens) {
    console.error(`${golden.name}: ${golden.reference}`);
    const result = await measureOrRefuse(golden);
    rows.push(result.row);
    device ||= result.device;
  }
  const texts = await textRows(folder, goldens);
  console.table(texts);
  const types = join(folder, 'gguf-blocks.json');
  const typeResult = existsSync(types) ? measureTypes(types) : { reference: 'absent', rows: [] };
  console.table(typeResult.rows);
  if (save) {
    const date = new Date().toISOString().slice(0, 10);
    const heading = `${date}, CPU backend on ${device}, numerics ${NUMERICS_ID}.`;
    const tables = [rows, texts, typeResult.rows].map((table) => markdownTable(table as never));
    writeSection(new URL('../../docs/MODELS.md', import.meta.url), 'models', [heading, ...tables].join('\n\n'));
  }
  return {
    workload: `models of a folder against their recorded answers; tensor types against ${typeResult.reference}`,
    model: rows.map(({ model }) => model).join(', '),
    fingerprint: NUMERICS_ID,
    device,
    rows: rows as never,
  };
}

/** A model that Stet refuses by name has a row that says so. */
async function measureOrRefuse(golden: GoldenModel): Promise<MeasuredModel> {
  try {
    return await measureModel(golden);
  } catch (error) {
    if (!isStetError(error) || error.code !== 'STET_ERR_UNKNOWN_ARCHITECTURE') throw error;
    return { row: refusedRow(golden.name, error.message), device: '' };
  }
}

async function textRows(folder: string, goldens: readonly GoldenModel[]): Promise<TextRow[]> {
  const tokenizers = join(folder, 'tokenizers');
  const rows = existsSync(tokenizers) ? await measureTexts(tokenizers) : [];
  for (const { name, path } of goldens) {
    if (path.endsWith('.gguf')) rows.push(await measurePrompts(name, path, join(dirname(path), 'golden.json')));
  }
  return rows;
}
