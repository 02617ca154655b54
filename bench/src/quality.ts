import { type Backend, isStetError, NUMERICS_ID, type Step } from '@stet/backend';
import { createCpuBackend } from '@stet/backend-cpu';
import { fingerprint, type LoadedModel } from '@stet/model';
import { loadModelPath } from '@stet/model/node';
import { SAMPLER_VERSION } from '@stet/scheduler';
import { rowsOf } from './batches.js';
import { compareLogits, type Divergence, overTexts } from './divergence.js';
import { type FormatCase, formatCases } from './formats.js';
import { markdownTable } from './models/markdown.js';
import type { BenchOptions } from './options.js';
import { Truth } from './quality/truth.js';
import type { BenchResult } from './result.js';
import { rounded } from './stats.js';
import { readText, type TextName, textNames } from './texts.js';

const BLOCK_SIZE = 16;
const MAX_ROWS = 128;
/** Tokens of each text. */
const SIZES = { quick: 128, full: 512 } as const;
/**
 * Rows at a time. Fast kernels are chosen by the shape of the batch, so each shape is measured; a canonical row does not depend on it,
 * which is tested elsewhere, bit for bit.
 */
const SHAPES = { fast: [1, MAX_ROWS], canonical: [MAX_ROWS] } as const;

interface Text {
  readonly name: TextName;
  readonly tokens: readonly number[];
  /** (tokens.length × vocabSize) */
  readonly truth: Float32Array;
}

/** One line of the table. */
interface Quality {
  readonly format: string;
  readonly schedule: keyof Step | 'f64';
  readonly rowsAtATime: number;
  readonly overall: Divergence;
  readonly byText: Readonly<Record<string, Divergence>>;
}

/**
 * How far each format and schedule is from an f64 forward of the model's own values, as its files have them: mean KL,
 * perplexity, likeliest token, over four kinds of text.
 */
export async function measureQuality({ model: path = 'tales', quick, threads }: BenchOptions): Promise<BenchResult> {
  const { all, own } = await formatCases(path);
  const model = await loadModelPath(path);
  try {
    const texts = await textsOf(model, SIZES[quick ? 'quick' : 'full']);
    const found = [
      qualityOf(
        'of the files',
        'f64',
        texts[0]!.tokens.length,
        texts,
        texts.map(({ truth }) => truth),
        model.plan.vocabSize,
      ),
    ];
    const skipped: Record<string, string> = {};
    let device = '';
    for (const format of all) {
      console.error(format.title);
      const measured = await measureFormat(path, format, texts, threads);
      if (measured.kind === 'skipped') skipped[format.title] = measured.reason;
      else {
        device = measured.device;
        found.push(...measured.found);
      }
    }
    for (const [title, reason] of Object.entries(skipped)) console.error(`SKIPPED ${title}: ${reason}`);
    const rows = found.map(rowOf);
    const { digest, plan, name } = model;
    const tokens = texts.map((text) => `${text.tokens.length} of ${text.name}`).join(', ');
    return {
      workload: `teacher forced, tokens: ${tokens}; against an f64 forward of the values that the files have; stored as ${model.storage.tensorTypes.map(({ type }) => type).join(', ')}, by itself loaded as ${own.title}`,
      model: name,
      fingerprint: fingerprint({ digest, plan, numericsId: NUMERICS_ID, samplerVersion: SAMPLER_VERSION }),
      device,
      rows,
      tables: [markdownTable(rows)],
      json: { model: name, digest, own: own.title, quality: found, skipped },
    };
  } finally {
    await model.close();
  }
}

async function textsOf(model: LoadedModel, size: number): Promise<Text[]> {
  const { plan, tokenizer, bosId } = model;
  const truth = new Truth(model, console.error);
  const texts: Text[] = [];
  for (const name of textNames) {
    const ids = tokenizer!.encode(readText(name), { addSpecialTokens: true });
    // Where the tokenizer adds no first token, nothing is added: the model is run as its users run it.
    const tokens = ids.slice(0, Math.min(size, plan.contextLength));
    if (tokens.length < 2) throw new Error(`${name} has ${tokens.length} tokens (first token ${bosId})`);
    texts.push({ name, tokens, truth: await truth.logits(name, tokens) });
  }
  return texts;
}

type Measured =
  | { readonly kind: 'measured'; readonly found: readonly Quality[]; readonly device: string }
  | { readonly kind: 'skipped'; readonly reason: string };

async function measureFormat(
  path: string,
  { title, format }: FormatCase,
  texts: readonly Text[],
  threads: number,
): Promise<Measured> {
  const model = await loadModelPath(path, { format, tokenizer: 'none' });
  let backend: Backend | undefined;
  try {
    const { plan, weights } = model;
    const longest = Math.max(...texts.map(({ tokens }) => tokens.length));
    const blockCount = Math.ceil(longest / BLOCK_SIZE) + 1;
    backend = await createCpuBackend({ threads })({
      plan,
      weights,
      blockSize: BLOCK_SIZE,
      blockCount,
      maxRows: MAX_ROWS,
    });
    const found: Quality[] = [];
    for (const schedule of ['fast', 'canonical'] as const) {
      for (const shape of SHAPES[schedule]) {
        const logits: Float32Array[] = [];
        for (const { tokens } of texts) logits.push(await forwardAll(backend, schedule, tokens, shape));
        found.push(qualityOf(title, schedule, shape, texts, logits, plan.vocabSize));
      }
    }
    return { kind: 'measured', found, device: backend.info.device };
  } catch (error) {
    if (!isStetError(error) || error.code !== 'STET_ERR_UNSUPPORTED') throw error;
    return { kind: 'skipped', reason: error.message };
  } finally {
    await backend?.close();
    await model.close();
  }
}

async function forwardAll(
  backend: Backend,
  schedule: keyof Step,
  tokens: readonly number[],
  shape: number,
): Promise<Float32Array> {
  const logits = new Float32Array(tokens.length * backend.info.vocabSize);
  for (let start = 0; start < tokens.length; start += shape) {
    const rowCount = Math.min(shape, tokens.length - start);
    const result = await backend.forward({ [schedule]: rowsOf(tokens, start, rowCount, 1, BLOCK_SIZE) });
    logits.set(result[schedule]!.logits, start * backend.info.vocabSize);
  }
  return logits;
}

function qualityOf(
  format: string,
  schedule: Quality['schedule'],
  rowsAtATime: number,
  texts: readonly Text[],
  logits: readonly Float32Array[],
  vocabSize: number,
): Quality {
  const parts = texts.map(({ tokens, truth }, i) => ({
    divergence: compareLogits(truth, logits[i]!, tokens, vocabSize),
    predicted: tokens.length - 1,
  }));
  const byText = Object.fromEntries(texts.map(({ name }, i) => [name, parts[i]!.divergence]));
  return { format, schedule, rowsAtATime, overall: overTexts(parts), byText };
}

function rowOf({ format, schedule, rowsAtATime, overall, byText }: Quality) {
  return {
    format,
    schedule,
    'rows at a time': rowsAtATime,
    'mean KL': Number(overall.meanKl.toPrecision(3)),
    perplexity: rounded(overall.perplexity, 3),
    'top-1 %': rounded(overall.top1 * 100, 2),
    ...Object.fromEntries(
      Object.entries(byText).map(([name, { meanKl }]) => [`KL of ${name}`, Number(meanKl.toPrecision(3))]),
    ),
  };
}
