import type { TokenLogprob } from '@stet/scheduler';
import { extendContext, fillLogits, flipArgmax, initialContext, kvWord } from '../fake/toy-model.js';
import { must } from './failure.js';
import { plainLogprob, plainSample } from './plain-sampler.js';
import type { SimulatedRequest } from './simulated-request.js';

/** What an oracle must know of the fake. */
export interface OracleModel {
  readonly modelSeed: number;
  readonly vocabSize: number;
  readonly mismatchRate: number;
}

/**
 * The right answer of one request, token by token, computed without blocks, batches, schedules or candidates. A
 * deterministic request has one. So has an ordinary one if the fast schedule does not deviate; if it does, each of its
 * tokens must follow from the logits of its own context, deviating or not.
 */
export class ExpectedAnswer {
  readonly output: number[] = [];
  private readonly simulated: SimulatedRequest;
  private readonly model: OracleModel;
  private context: number;
  private position = 0;

  constructor(simulated: SimulatedRequest, model: OracleModel) {
    this.simulated = simulated;
    this.model = model;
    this.context = initialContext(model.modelSeed);
    for (const token of simulated.request.promptTokens) this.extend(token);
  }

  /** Takes the next output token and its log-probabilities, or throws the difference. */
  accept(token: number, logprob: TokenLogprob | undefined): void {
    const { id, topLogprobs } = this.simulated.request;
    const index = this.output.length;
    must(this.ending === undefined, `output index ${index}: token ${token} after the end of the answer`, id);
    must(
      (logprob !== undefined) === (topLogprobs !== undefined),
      `output index ${index}: log-probabilities are ${logprob ? 'there' : 'missing'}`,
      id,
    );
    const variants = this.logitsVariants();
    const expected = variants.map((logits) => this.sample(logits));
    must(expected.includes(token), `output index ${index}: got token ${token}, expected ${expected.join(' or ')}`, id);
    if (logprob) {
      const right = variants.filter((_, i) => expected[i] === token);
      const rights = right.map((logits) => JSON.stringify(plainLogprob(logits, token, topLogprobs!)));
      // JSON prints an f64 so that it reads back as the same bits.
      const got = JSON.stringify(logprob);
      must(rights.includes(got), `output index ${index}: log-probabilities are ${got}, expected ${rights[0]}`, id);
    }
    this.output.push(token);
    this.extend(token);
  }

  /** Why the answer is complete; undefined while it goes on. */
  get ending(): 'stop' | 'length' | undefined {
    const { output } = this;
    const { request, stopSuffix } = this.simulated;
    if (output.length === 0) return undefined;
    if (request.stopTokens.has(output.at(-1)!)) return 'stop';
    const tail = output.slice(-stopSuffix.length);
    if (stopSuffix.length > 0 && tail.join() === stopSuffix.join()) return 'stop';
    return output.length >= request.maxTokens ? 'length' : undefined;
  }

  /** Logits that the next row may have. */
  private logitsVariants(): Float32Array[] {
    const plain = new Float32Array(this.model.vocabSize);
    fillLogits(this.context, plain);
    const { mismatchRate } = this.model;
    if (this.simulated.request.kind === 'deterministic' || mismatchRate === 0) return [plain];
    const deviating = plain.slice();
    flipArgmax(deviating);
    return mismatchRate === 1 ? [deviating] : [plain, deviating];
  }

  private sample(logits: Float32Array): number {
    const { sampling, seed, promptTokens } = this.simulated.request;
    return plainSample(logits, sampling, seed, this.output.length, promptTokens, this.output);
  }

  private extend(token: number): void {
    this.context = extendContext(this.context, kvWord(this.context, token, this.position++), 'canonical');
  }
}
