import { type Batch, type BatchResult, OUTPUT_LOGITS, tableOf } from '@stet/backend';
import { mix32 } from '../hash.js';
import type { FakeMemory } from './fake-memory.js';
import type { FakeBackendOptions, FakeBatchLog, FakeFault } from './fake-options.js';
import {
  argmaxOf,
  CANDIDATE_BIT,
  extendContext,
  fillLogits,
  flipArgmax,
  forceToken,
  initialContext,
  kvWord,
  runnerUpOf,
  type Schedule,
} from './toy-model.js';

/** What a row may know of its step; only a faulty fake lets canonical logits depend on it. */
export interface StepShape {
  readonly stepCount: number;
  readonly hasFast: boolean;
}

/** Writes the K/V words of a batch, reads them back through its block tables and answers its output rows. */
export function runBatch(
  memory: FakeMemory,
  batch: Batch,
  schedule: Schedule,
  vocabSize: number,
  options: FakeBackendOptions,
  shape: StepShape,
): { result: BatchResult; log: FakeBatchLog } {
  const outputCount = batch.outputRows.length;
  const result: BatchResult = {
    argmax: new Int32Array(outputCount),
    argmaxLogit: new Float32Array(outputCount),
    runnerUpLogit: new Float32Array(outputCount),
    logits: new Float32Array(batch.outputKinds.filter((kind) => kind === OUTPUT_LOGITS).length * vocabSize),
  };
  const scratch = new Float32Array(vocabSize);
  const injectedRows: number[] = [];
  let output = 0;
  let logitsRows = 0;
  writeBatch(memory, batch, schedule, options, (row, state) => {
    if (batch.outputRows[output] !== row) return;
    const wantsLogits = batch.outputKinds[output] === OUTPUT_LOGITS;
    const logits = wantsLogits ? result.logits.subarray(logitsRows++ * vocabSize, logitsRows * vocabSize) : scratch;
    if (answer(logits, state, batch, row, schedule, options, shape)) injectedRows.push(row);
    const argmax = options.fault === 'highestTie' ? logits.lastIndexOf(Math.max(...logits)) : argmaxOf(logits);
    result.argmax[output] = argmax;
    result.argmaxLogit[output] = logits[argmax]!;
    result.runnerUpLogit[output] = runnerUpLogit(logits, argmax, wantsLogits, options.fault);
    output++;
  });
  return { result, log: logOf(batch, memory.blockSize, injectedRows) };
}

function runnerUpLogit(logits: Float32Array, argmax: number, wantsLogits: boolean, fault: FakeFault = 'none'): number {
  switch (fault) {
    case 'runnerUpBelowTies':
      return logits.reduce((a, b) => (b > a && b < logits[argmax]! ? b : a), Number.NEGATIVE_INFINITY);
    case 'runnerUpNeedsLogits':
      return wantsLogits ? logits[runnerUpOf(logits, argmax)]! : logits[argmax]!;
    default:
      return logits[runnerUpOf(logits, argmax)]!;
  }
}

/** A row's context as the schedule read it. */
interface RowState {
  readonly context: number;
  /** Differs with the number and place of candidate words, which the fast schedule itself does not see. */
  readonly candidates: number;
  /** Position of the first row of the sequence in this batch. */
  readonly windowStart: number;
  /** The tokens of positions 0..p, read through the block table. */
  readonly tokens: () => number[];
}

export function writeBatch(
  memory: FakeMemory,
  batch: Batch,
  schedule: Schedule,
  options: FakeBackendOptions,
  onRow: (row: number, state: RowState) => void = () => {},
): void {
  const { words, tokens, blockSize } = memory;
  const { fault, seed = 0, fastKvDeviates = true } = options;
  const candidateBit = schedule === 'fast' && fastKvDeviates ? CANDIDATE_BIT : 0;
  for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
    const table = faultyTable(memory, batch, s, fault);
    const slot = (position: number): number =>
      table[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
    const windowStart = batch.positions[batch.rowStarts[s]!]!;
    let { context, candidates } = readPrefix(words, table, blockSize, windowStart, initialContext(seed), schedule);
    for (let row = batch.rowStarts[s]!; row < batch.rowStarts[s + 1]!; row++) {
      const position = batch.positions[row]!;
      const at = slot(position);
      if (fault !== 'keepsCandidateKv' || schedule === 'fast' || !(words[at]! & CANDIDATE_BIT)) {
        words[at] = kvWord(context, batch.tokens[row]!, position) | candidateBit;
        tokens[at] = batch.tokens[row]!;
      }
      context = extendContext(context, words[at]!, schedule);
      candidates = countCandidate(candidates, words[at]!, position);
      const seen = fault === 'readsAhead' ? extendContext(context, words[slot(position + 1)] ?? 0, schedule) : context;
      const contextTokens = (): number[] => Array.from({ length: position + 1 }, (_, p) => tokens[slot(p)]!);
      onRow(row, { context: seen, candidates, windowStart, tokens: contextTokens });
    }
  }
}

/** Reads positions 0 .. end - 1 through a block table: nearly all the work of a long sequence, so the loop is plain. */
function readPrefix(
  words: Int32Array,
  table: readonly number[],
  blockSize: number,
  end: number,
  start: number,
  schedule: Schedule,
): { context: number; candidates: number } {
  let context = start;
  let candidates = 0;
  for (let position = 0; position < end; ) {
    let at = table[position / blockSize]! * blockSize;
    for (const blockEnd = Math.min(position + blockSize, end); position < blockEnd; position++, at++) {
      const word = words[at]!;
      context = extendContext(context, word, schedule);
      candidates = countCandidate(candidates, word, position);
    }
  }
  return { context, candidates };
}

function countCandidate(candidates: number, word: number, position: number): number {
  return (candidates + (word & CANDIDATE_BIT) * (2 * position + 1)) | 0;
}

/** The blocks of sequence s. */
function faultyTable(
  { blockCount, blockSize }: FakeMemory,
  batch: Batch,
  s: number,
  fault: FakeFault = 'none',
): number[] {
  const table = [...tableOf(batch, s, blockSize)];
  switch (fault) {
    case 'ignoresBlockTables':
      return table.map((_, index) => Math.min(index + 1, blockCount - 1));
    case 'aliasesLastBlock':
      return table.map((block) => (block === blockCount - 1 ? 1 : block));
    default:
      return table;
  }
}

/** Fills the logits of a row; true if its arg-max was made to differ. */
function answer(
  logits: Float32Array,
  state: RowState,
  batch: Batch,
  row: number,
  schedule: Schedule,
  options: FakeBackendOptions,
  shape: StepShape,
): boolean {
  const { fault = 'none', mismatchRate = 0, script } = options;
  let context = state.context;
  if (schedule === 'canonical') context = withFault(context, state, batch, row, fault, shape);
  else if (fault === 'fastIsNoise') context = mix32(context, 1);
  fillLogits(context, logits);
  const forced = script?.(state.tokens(), schedule);
  if (forced !== undefined) forceToken(logits, forced);
  if (schedule === 'canonical' || mismatchRate === 0) return false;
  const batchShape = mix32(batch.tokens.length, batch.rowStarts.length);
  const draw = mix32(mix32(mix32(state.context, state.candidates), batchShape), 0x5eed) >>> 0;
  if (draw >= mismatchRate * 2 ** 32) return false;
  flipArgmax(logits);
  return true;
}

function withFault(
  context: number,
  state: RowState,
  batch: Batch,
  row: number,
  fault: FakeFault,
  shape: StepShape,
): number {
  switch (fault) {
    case 'batchDependent':
      return mix32(context, batch.tokens.length);
    case 'rowDependent':
      return mix32(context, batch.rowStarts.findLast((start) => start <= row)!);
    case 'windowDependent':
      return mix32(context, state.windowStart);
    case 'dependsOnFast':
      return mix32(context, shape.hasFast ? 1 : 0);
    case 'drifts':
      return mix32(context, shape.stepCount);
    default:
      return context;
  }
}

function logOf(batch: Batch, blockSize: number, injectedRows: number[]): FakeBatchLog {
  const sequences = Array.from({ length: batch.rowStarts.length - 1 }, (_, s) => ({
    position: batch.positions[batch.rowStarts[s]!]!,
    tokens: [...batch.tokens.subarray(batch.rowStarts[s], batch.rowStarts[s + 1])],
    blocks: [...tableOf(batch, s, blockSize)],
  }));
  return { rowCount: batch.tokens.length, sequences, outputRows: [...batch.outputRows], injectedRows };
}
