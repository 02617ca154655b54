import { GREEDY, type SamplingParams } from '@stet/scheduler';
import type { SeededRandom } from '../random.js';
import { type SimulatedRequest, suffixMatcher } from './simulated-request.js';
import { longestSequence, type Swarm } from './swarm.js';

/** Makes the requests of a run: a fixed number of them, new ones and follow-ups of answers that came. */
export class RequestSource {
  private readonly swarm: Swarm;
  private readonly random: SeededRandom;
  private readonly prefixes: number[][];
  private readonly conversations: number[][] = [];
  private latest: SimulatedRequest | undefined;
  private made = 0;

  constructor(swarm: Swarm, random: SeededRandom) {
    this.swarm = swarm;
    this.random = random;
    this.prefixes = Array.from({ length: 3 }, () => this.tokens(swarm.longestPrompt));
  }

  get left(): number {
    return this.swarm.requestCount - this.made;
  }

  /** A prompt and its answer, which later requests may extend. */
  addConversation(tokens: readonly number[]): void {
    this.conversations.push([...tokens]);
    if (this.conversations.length > 8) this.conversations.shift();
  }

  next(): SimulatedRequest {
    const { latest, random, swarm } = this;
    const next = latest && random.chance(swarm.chances.sibling) ? this.sibling(latest) : this.fresh();
    this.latest = next;
    return next;
  }

  /** The same request with another seed, after the first one's prefill. */
  private sibling({ request, stopSuffix }: SimulatedRequest): SimulatedRequest {
    const sibling = { ...request, id: this.nextId(), seed: this.random.next(), after: request.after ?? request.id };
    return { request: sibling, stopSuffix, attempt: 0 };
  }

  private fresh(): SimulatedRequest {
    const { random, swarm } = this;
    const { chances } = swarm;
    const prompt = this.prompt();
    const stopSuffix = random.chance(chances.stops / 2) ? this.tokens(random.between(1, 3)) : [];
    const request = {
      id: this.nextId(),
      kind: random.chance(swarm.deterministic) ? ('deterministic' as const) : ('ordinary' as const),
      promptTokens: Int32Array.from(prompt),
      maxTokens: Math.min(random.between(1, swarm.longestOutput), longestSequence(swarm) - prompt.length),
      sampling: random.chance(chances.sampled) ? this.sampling() : GREEDY,
      seed: random.chance(0.5) ? random.below(3) : random.next() * 2 ** 21 + random.below(2 ** 21),
      stopTokens: new Set(random.chance(chances.stops) ? this.tokens(random.between(1, 2)) : []),
      priority: random.pick(swarm.priorities),
      provisional: random.chance(chances.provisional),
      ...(stopSuffix.length > 0 && { stop: suffixMatcher(stopSuffix) }),
      ...(random.chance(chances.logprobs) && { topLogprobs: random.below(Math.min(20, swarm.vocabSize) + 1) }),
    };
    return { request, stopSuffix, attempt: 0 };
  }

  private nextId(): string {
    return `r${this.made++}`;
  }

  private prompt(): number[] {
    const { random, swarm } = this;
    const most = longestSequence(swarm) - 1;
    const earlier = this.conversations.length > 0 ? random.pick(this.conversations) : [];
    if (earlier.length > 0 && earlier.length < most && random.chance(swarm.chances.followUp))
      return [...earlier, ...this.tokens(random.between(1, Math.min(4, most - earlier.length)))];
    const length = random.between(1, swarm.longestPrompt);
    if (!random.chance(swarm.chances.sharedPrefix)) return this.tokens(length);
    const shared = random.pick(this.prefixes).slice(0, random.between(0, length));
    return [...shared, ...this.tokens(length - shared.length)];
  }

  private tokens(count: number): number[] {
    return Array.from({ length: count }, () => this.random.below(this.swarm.vocabSize));
  }

  private sampling(): SamplingParams {
    const { random, swarm } = this;
    const bias = random.chance(0.2) ? [[random.below(swarm.vocabSize), random.pick([-100, -2, 3, 100])] as const] : [];
    return {
      ...GREEDY,
      temperature: random.pick([0, 0.001, 0.7, 1, 1.3, 100]),
      topK: random.pick([0, 0, 1, 3, 40]),
      topP: random.pick([1, 1, 0.9, 0.3, 0]),
      minP: random.pick([0, 0, 0.05, 1]),
      frequencyPenalty: random.pick([0, 0, 0.3, 2, -2]),
      repetitionPenalty: random.pick([1, 1, 1.2, 0.1, 10]),
      presencePenalty: random.pick([0, 0, 0.5, -1]),
      logitBias: new Map(bias),
    };
  }
}
