/** Times one forward. */
export interface Clock {
  /** What it looks at, for the page. */
  readonly words: string;
  /** Seconds. Calls may not overlap. */
  seconds(forward: () => Promise<unknown>): Promise<number>;
}

/** From the call to its result, whatever the host did meanwhile. */
export const wallClock: Clock = {
  words: 'wall time',
  seconds: async (forward) => {
    const start = performance.now();
    await forward();
    return (performance.now() - start) / 1000;
  },
};
