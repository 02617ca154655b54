import type { Engine, GenerateEvents, StetEngine } from '@stet/engine';

/** An engine whose answers stop after their first tokens until the gate is opened. */
export interface GatedEngine extends Engine, Pick<StetEngine, 'chat' | 'completions'> {
  open(): void;
}

/** Tokens that pass while the gate is closed. */
const PASSING_TOKENS = 24;

/** `engine` stays the caller's. */
export function gatedEngine(engine: StetEngine): GatedEngine {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return {
    info: engine.info,
    chat: engine.chat,
    completions: engine.completions,
    generate: (request, options) => gated(engine.generate(request, options), opened),
    stats: () => engine.stats(),
    close: async () => {},
    [Symbol.asyncDispose]: async () => {},
    open,
  };
}

function gated(events: GenerateEvents, opened: Promise<void>): GenerateEvents {
  let tokenCount = 0;
  return {
    next: async (limit) => {
      if (tokenCount >= PASSING_TOKENS) await opened;
      const result = await events.next(limit);
      if (!result.done && result.value.type === 'commit') tokenCount += result.value.tokens.length;
      return result;
    },
    return: (value) => events.return!(value),
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
