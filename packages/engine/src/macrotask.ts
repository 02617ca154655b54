interface ImmediateScope {
  setImmediate?(callback: () => void): unknown;
}

/**
 * Returns a function that waits until the event loop has gone round: timers and sockets get their turn between steps.
 * Promises alone would starve them when a backend answers without leaving the thread.
 */
export function createMacrotask(): { wait(): Promise<void>; close(): void } {
  const { setImmediate } = globalThis as ImmediateScope;
  if (typeof setImmediate === 'function') {
    return { wait: () => new Promise((resolve) => setImmediate(resolve)), close: () => {} };
  }
  // Browsers clamp nested timers to 4 ms; a message is not clamped.
  const channel = new MessageChannel();
  let resume: () => void = () => {};
  channel.port1.onmessage = () => resume();
  return {
    wait: () =>
      new Promise((resolve) => {
        resume = resolve;
        channel.port2.postMessage(null);
      }),
    close: () => channel.port1.close(),
  };
}
