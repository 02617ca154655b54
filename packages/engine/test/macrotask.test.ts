import { afterEach, describe, expect, it, vi } from 'vitest';
import { createMacrotask } from '../src/macrotask.js';

afterEach(() => vi.unstubAllGlobals());

describe.each(['setImmediate', 'MessageChannel'])('a wait by %s', (way) => {
  it('lets timers run, however often it is repeated', async () => {
    if (way === 'MessageChannel') vi.stubGlobal('setImmediate', undefined);
    const macrotask = createMacrotask();
    let fired = false;
    setTimeout(() => {
      fired = true;
    }, 0);
    let turns = 0;
    while (!fired && turns < 10_000) {
      turns++;
      await macrotask.wait();
    }
    macrotask.close();
    expect(fired).toBe(true);
    expect(turns).toBeGreaterThan(0);
  });
});
