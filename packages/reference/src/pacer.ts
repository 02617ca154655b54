/** Lets timers and sockets of the caller run while a step computes. It changes when work is done, never its result. */
export interface Pacer {
  /** Waits for one turn of the event loop if the last one was some milliseconds ago. */
  pause(): Promise<void>;
}

const TURN_MS = 8;

export function createPacer(): Pacer {
  let last = performance.now();
  return {
    async pause() {
      if (performance.now() - last < TURN_MS) return;
      await new Promise<void>((resolve) => setTimeout(resolve, 0));
      last = performance.now();
    },
  };
}
