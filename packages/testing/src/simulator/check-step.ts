import { type Batch, tableOf } from '@stet/backend';
import type { PlannedRun, PlannedStep } from '@stet/scheduler';
import { must } from './failure.js';
import type { Swarm } from './swarm.js';

/**
 * Rules of a planned step that a backend cannot know: budgets, no rows for requests that are paused or over, and no
 * block written by one sequence that another one reads in the same step.
 */
export function checkPlannedStep(planned: PlannedStep, swarm: Swarm, mayRun: (id: string) => boolean): void {
  const { step, runs } = planned;
  const { fastBudget, canonicalBudget } = swarm.limits;
  checkBudget('fast', step.fast, Math.min(fastBudget, swarm.maxRows));
  const { sequenceCount = 0, windowTokens = 0 } = swarm.canonicalShape ?? {};
  const shapeRows = sequenceCount * windowTokens;
  checkBudget('canonical', step.canonical, Math.max(shapeRows, Math.min(canonicalBudget, swarm.maxRows)));
  for (const { sequence } of runs)
    must(mayRun(sequence.id), 'it has rows in a step, but is paused or over', sequence.id);
  checkPromptRows(planned, swarm);
  const places = [step.fast, step.canonical].flatMap((batch) => (batch ? entriesOf(batch, swarm.blockSize) : []));
  const isScratch = ({ blocks }: { blocks: Int32Array }) => shapeRows > 0 && blocks.every((block) => block === 0);
  const entries = places.filter((place) => !isScratch(place));
  must(entries.length === runs.length, `${entries.length} sequences in the batches, ${runs.length} planned`);
  const writers = new Map<number, number>();
  entries.forEach(({ written }, entry) => {
    for (const block of written) {
      must(!writers.has(block), `block ${block} is written twice in a step`);
      writers.set(block, entry);
    }
  });
  entries.forEach(({ blocks }, entry) => {
    for (const block of blocks) {
      must(block !== 0, 'block 0 was issued');
      const writer = writers.get(block);
      must(writer === undefined || writer === entry, `block ${block} is written while another sequence reads it`);
    }
  });
}

/** Beside other rows prompts have one budget for both batches, so that tokens keep flowing; a fixed shape bounds its own. */
function checkPromptRows({ runs }: PlannedStep, swarm: Swarm): void {
  const isPrompt = ({ sequence }: PlannedRun) => sequence.phase === 'prefill';
  if (runs.every(isPrompt)) return;
  const bounded = runs.filter((run) => isPrompt(run) && !(run.schedule === 'canonical' && swarm.canonicalShape));
  const rowCount = bounded.reduce((sum, run) => sum + run.rowCount, 0);
  const { prefillBudget } = swarm.limits;
  must(rowCount <= prefillBudget, `${rowCount} rows of prompts beside others, ${prefillBudget} are allowed`);
}

function checkBudget(name: string, batch: Batch | undefined, budget: number): void {
  const rowCount = batch?.tokens.length ?? 0;
  must(rowCount <= budget, `${rowCount} rows in the ${name} batch, the budget is ${budget}`);
}

function entriesOf(batch: Batch, blockSize: number): { blocks: Int32Array; written: Int32Array }[] {
  return Array.from({ length: batch.rowStarts.length - 1 }, (_, s) => {
    const blocks = tableOf(batch, s, blockSize);
    const first = Math.floor(batch.positions[batch.rowStarts[s]!]! / blockSize);
    return { blocks, written: blocks.subarray(first) };
  });
}
