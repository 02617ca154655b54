import { assert, type CanonicalShape, type Step } from '@stet/backend';
import type { KvCache } from '@stet/kv-cache';
import { BatchBuilder, type OutputRange, type RowRange } from './batch-builder.js';
import type { BlockArena } from './block-arena.js';
import type { Sequence } from './sequence.js';

export type Schedule = 'fast' | 'canonical';

/** Rows of one sequence in one batch of a step, and how to find their results. */
export interface PlannedRun {
  readonly sequence: Sequence;
  /** The sequence's epoch when it was planned. */
  readonly epoch: number;
  readonly schedule: Schedule;
  readonly start: number;
  readonly rowCount: number;
  readonly output: OutputRange;
  /** The first so many output rows stand before the prompt's last token: each tells the log-probability of the token after it. */
  readonly scoreCount: number;
  readonly wants: 'argmax' | 'logits';
}

export interface PlannedStep {
  readonly step: Step;
  readonly runs: readonly PlannedRun[];
}

/** A step under construction: two batches with a row budget each. */
export class StepDraft {
  private readonly kv: KvCache;
  private readonly arena: BlockArena;
  private readonly builders: Record<Schedule, BatchBuilder>;
  private readonly budgets: Record<Schedule, number>;
  private runs: PlannedRun[] = [];
  private stepNumber = 0;

  constructor(kv: KvCache, arena: BlockArena, budgets: Record<Schedule, number>) {
    this.kv = kv;
    this.arena = arena;
    this.budgets = budgets;
    this.builders = {
      fast: new BatchBuilder(arena, budgets.fast),
      canonical: new BatchBuilder(arena, budgets.canonical),
    };
  }

  /** Begins a step; none may be in flight. */
  reset(stepNumber: number): void {
    this.stepNumber = stepNumber;
    this.arena.compact();
    this.builders.fast.reset();
    this.builders.canonical.reset();
    this.runs = [];
  }

  get rowCount(): number {
    return this.builders.fast.rowCount + this.builders.canonical.rowCount;
  }

  /** Rows that still fit into the batch. */
  room(schedule: Schedule): number {
    return this.budgets[schedule] - this.builders[schedule].rowCount;
  }

  add(sequence: Sequence, schedule: Schedule, range: RowRange): void {
    const needed = this.kv.blocksFor(range.start + range.rowCount);
    assert(sequence.table.length >= needed, `the table of sequence ${sequence.id} does not hold its rows`);
    const output = this.builders[schedule].add(sequence, range);
    this.note(sequence, schedule, range, output);
  }

  /** Places of a fixed shape: windows of sequences, the rest scratch. Nothing without windows. */
  addFixedShape(windows: readonly { sequence: Sequence; range: RowRange }[], shape: CanonicalShape): void {
    const { sequenceCount, windowTokens } = shape;
    assert(windows.length <= sequenceCount, 'more windows than the fixed shape has');
    if (windows.length === 0) return;
    const builder = this.builders.canonical;
    for (const { sequence, range } of windows) {
      const needed = this.kv.blocksFor(range.start + windowTokens);
      assert(sequence.table.length >= needed, `the table of sequence ${sequence.id} does not hold its window`);
      const output = builder.addWindow(sequence, range, windowTokens);
      this.note(sequence, 'canonical', range, output);
    }
    for (let i = windows.length; i < sequenceCount; i++)
      builder.addScratch(windowTokens, this.kv.blocksFor(windowTokens));
  }

  finish(): PlannedStep | undefined {
    const fast = this.builders.fast.build();
    const canonical = this.builders.canonical.build();
    if (!fast && !canonical) return undefined;
    return { step: { ...(fast && { fast }), ...(canonical && { canonical }) }, runs: this.runs };
  }

  private note(sequence: Sequence, schedule: Schedule, range: RowRange, output: OutputRange): void {
    const { start, rowCount, wants } = range;
    sequence.servedStep = this.stepNumber;
    const firstOutput = start + rowCount - output.outputCount;
    const scoreCount = Math.max(0, Math.min(output.outputCount, sequence.promptCount - 1 - firstOutput));
    this.runs.push({ sequence, epoch: sequence.epoch, schedule, start, rowCount, output, scoreCount, wants });
  }
}
