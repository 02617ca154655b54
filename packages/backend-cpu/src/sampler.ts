import type { Draw, Drawn, TokenLogprob } from '@stet/backend';
import { type Addon, type IsaName, type NativeHandle, rethrowNative } from './addon.js';
import { isaNumber } from './options.js';

/** As native/handle_binding.cpp has them: temperature, topK, topP, minP, seed, outputIndex, topLogprobs, adjusted count. */
const DRAW_WORDS = 8;
/** As kernels/cpu/sampling.h has it. */
const MAX_TOP_LOGPROBS = 20;
/** Draws that take no longer than this are made at once, on the caller's thread; to wake another takes about as long. */
const HERE_NANOSECONDS = 100_000;

/** How much longer a draw takes, at most. */
const SLOWNESS: Readonly<Record<IsaName, number>> = { scalar: 6, avx2: 1.5, avx512: 1 };

/** Makes the draws of a step by the addon, on the threads of a backend. */
export class NativeDraws {
  readonly #addon: Addon;
  readonly #handle: NativeHandle;
  readonly #isa: IsaName;
  #words = new Float64Array(0);
  #adjustedIds = new Int32Array(0);
  #adjustedValues = new Float64Array(0);
  #tokens = new Int32Array(0);
  #normalizers = new Float64Array(0);
  #topIds = new Int32Array(0);

  constructor(addon: Addon, handle: NativeHandle, isa: IsaName) {
    this.#addon = addon;
    this.#handle = handle;
    this.#isa = isa;
  }

  /** The answers at once, or a promise of them where the draws are many. One call may run at a time. */
  make(draws: readonly Draw[]): readonly Drawn[] | Promise<readonly Drawn[]> {
    if (draws.length === 0) return [];
    this.#write(draws);
    const slowness = SLOWNESS[this.#isa];
    const isShort = draws.reduce((sum, draw) => sum + nanosecondsOf(draw), 0) * slowness <= HERE_NANOSECONDS;
    const running = this.#sample(draws, isShort);
    return running ? running.then(() => this.#read(draws), rethrowNative) : this.#read(draws);
  }

  #sample(draws: readonly Draw[], here: boolean): Promise<void> | undefined {
    try {
      return this.#addon.sample(
        this.#handle,
        isaNumber[this.#isa],
        here,
        draws.map((draw) => draw.logits),
        this.#words,
        this.#adjustedIds,
        this.#adjustedValues,
        this.#tokens,
        this.#normalizers,
        this.#topIds,
      );
    } catch (error) {
      rethrowNative(error);
    }
  }

  #write(draws: readonly Draw[]): void {
    const adjustedCount = draws.reduce((sum, { adjusted }) => sum + (adjusted?.ids.length ?? 0), 0);
    this.#reserve(draws.length, adjustedCount);
    let at = 0;
    for (const [i, { adjusted, params, seed, outputIndex, topLogprobs = -1 }] of draws.entries()) {
      const { temperature, topK, topP, minP } = params;
      const count = adjusted?.ids.length ?? 0;
      this.#words.set([temperature, topK, topP, minP, seed, outputIndex, topLogprobs, count], i * DRAW_WORDS);
      if (!adjusted) continue;
      this.#adjustedIds.set(adjusted.ids, at);
      this.#adjustedValues.set(adjusted.values, at);
      at += count;
    }
  }

  #read(draws: readonly Draw[]): readonly Drawn[] {
    return draws.map(({ logits, topLogprobs }, i) => {
      const token = this.#tokens[i];
      if (topLogprobs === undefined) return { token };
      const of = (id: number) => ({ token: id, logprob: logits[id] - this.#normalizers[i] });
      const first = i * MAX_TOP_LOGPROBS;
      const top = Array.from(this.#topIds.subarray(first, first + topLogprobs), of);
      const logprob: TokenLogprob = { ...of(token), top };
      return { token, logprob };
    });
  }

  #reserve(drawCount: number, adjustedCount: number): void {
    if (this.#tokens.length < drawCount) {
      const count = Math.max(drawCount, 2 * this.#tokens.length);
      this.#words = new Float64Array(count * DRAW_WORDS);
      this.#tokens = new Int32Array(count);
      this.#normalizers = new Float64Array(count);
      this.#topIds = new Int32Array(count * MAX_TOP_LOGPROBS);
    }
    if (this.#adjustedIds.length < adjustedCount) {
      const count = Math.max(adjustedCount, 2 * this.#adjustedIds.length);
      this.#adjustedIds = new Int32Array(count);
      this.#adjustedValues = new Float64Array(count);
    }
  }
}

/** What a draw takes, roughly, by AVX-512. */
function nanosecondsOf({ logits, params, topLogprobs }: Draw): number {
  const perToken = (params.topP < 1 ? 2 : 1) + (topLogprobs === undefined ? 0 : 4);
  return logits.length * perToken;
}
