import { assert, createStepChecker, type Step } from '@stet/backend';
import { dvr, GREEDY, type SamplingParams, Scheduler, type SequenceRequest } from '@stet/scheduler';
import { NullBackend } from './null-backend.js';

export interface StepCase {
  /** Sequences that run, every other one of them deterministic. */
  readonly running: number;
  /** Prompt tokens of each. */
  readonly context: number;
  readonly sampling: 'greedy' | 'sampled';
  readonly vocabSize: number;
  /** Most measured and unmeasured steps: each sequence has room for so many output tokens. */
  readonly steps: number;
}

/** What one step took, in µs. */
export interface StepTimes {
  readonly plan: number;
  readonly check: number;
  readonly apply: number;
}

const BLOCK_SIZE = 16;
/** Rows of a batch, as by default. */
const MAX_ROWS = 512;
/** A clock that is not the machine's: 16 candidates gather before the oldest is held too long. */
const STEP_MS = 5;
export const SAMPLED: SamplingParams = { ...GREEDY, temperature: 0.8, topP: 0.95 };

/** A scheduler over a device that takes no time, with all sequences past their prompts. */
export class StepRig {
  readonly scheduler: Scheduler;
  readonly #backend: NullBackend;
  readonly #check: (step: Step) => void;
  #nowMs = 0;

  private constructor({ running, context, sampling, vocabSize, steps }: StepCase) {
    // A window may commit 17 tokens in the last step.
    const contextLength = context + steps + 32;
    const blockCount = running * (Math.ceil(contextLength / BLOCK_SIZE) + 1) + 1;
    const info = { vocabSize, contextLength, blockSize: BLOCK_SIZE, blockCount, maxRows: MAX_ROWS };
    const limits = { maxRunning: running };
    this.scheduler = new Scheduler({ ...info, canonical: 'portable', fast: 'free', policy: dvr(), limits });
    this.#backend = new NullBackend(vocabSize, MAX_ROWS, sampling === 'sampled' ? MAX_ROWS : 0);
    this.#check = createStepChecker(info);
  }

  static async create(one: StepCase): Promise<StepRig> {
    const rig = new StepRig(one);
    for (let i = 0; i < one.running; i++) rig.scheduler.add(requestOf(one, i), 0);
    await rig.#runPrompts(one.running);
    return rig;
  }

  /** Runs one step; undefined when nothing is left to do. */
  async step(): Promise<StepTimes | undefined> {
    this.#nowMs += STEP_MS;
    const start = performance.now();
    const planned = this.scheduler.plan(this.#nowMs);
    const planEnd = performance.now();
    if (!planned) return undefined;
    this.#check(planned.step);
    const checkEnd = performance.now();
    const result = await this.#backend.forward(planned.step);
    const applyStart = performance.now();
    this.scheduler.apply(planned, result, this.#nowMs);
    const applyEnd = performance.now();
    const us = (from: number, to: number) => (to - from) * 1000;
    return { plan: us(start, planEnd), check: us(planEnd, checkEnd), apply: us(applyStart, applyEnd) };
  }

  /** A sequence waits from its first token on until all have theirs. */
  async #runPrompts(running: number): Promise<void> {
    const started: string[] = [];
    while (started.length < running) {
      const planned = this.scheduler.plan(this.#nowMs);
      assert(planned, 'the prompts do not fit');
      for (const event of this.scheduler.apply(planned, await this.#backend.forward(planned.step), this.#nowMs)) {
        assert(event.kind === 'commit', `${event.kind} while prompts run`);
        this.scheduler.pause(event.id);
        started.push(event.id);
      }
    }
    for (const id of started) this.scheduler.resume(id);
  }
}

function requestOf({ context, sampling, vocabSize, steps }: StepCase, index: number): SequenceRequest {
  return {
    id: `s${index}`,
    kind: index % 2 === 0 ? 'deterministic' : 'ordinary',
    // No two prompts share a block.
    promptTokens: Int32Array.from({ length: context }, (_, position) => (index + position * 31) % vocabSize),
    maxTokens: steps + 32,
    sampling: sampling === 'sampled' ? SAMPLED : GREEDY,
    seed: index,
    stopTokens: new Set(),
    priority: 0,
    provisional: false,
  };
}
