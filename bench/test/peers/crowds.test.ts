import { describe, expect, it } from 'vitest';
import { type Ask, askCrowd, type Crowd, crowdsOf, MAX_LANES, maxPositions } from '../../src/peers/crowds.js';

const text = Array.from({ length: 500 }, (_, i) => i);
const options = { targets: 50, outputTokens: 24, seed: 9 };
const crowds = crowdsOf(text, options);
const count = ({ lanes }: Crowd, kind: 'target' | 'neighbour') => lanes.filter((lane) => lane.kind === kind).length;
const neighboursOf = ({ lanes }: Crowd) => lanes.flatMap((lane) => (lane.kind === 'neighbour' ? [lane.requests] : []));

describe('crowds', () => {
  it('hold so many equal requests, the first of them alone', () => {
    expect(crowds.reduce((sum, crowd) => sum + count(crowd, 'target'), 0)).toBe(50);
    expect(crowds[0]!.lanes).toEqual([{ kind: 'target' }]);
    expect(new Set(crowds.map(({ target }) => target))).toEqual(
      new Set([{ promptTokens: text.slice(0, 32), outputTokens: 24 }]),
    );
  });

  it('differ in how many others there are, within what everybody can run at once', () => {
    expect(new Set(crowds.map((crowd) => count(crowd, 'neighbour'))).size).toBeGreaterThan(3);
    expect(Math.max(...crowds.map((crowd) => count(crowd, 'neighbour')))).toBeGreaterThan(4);
    for (const { lanes } of crowds) expect(lanes.length).toBeLessThanOrEqual(MAX_LANES);
  });

  it('have others who write as long as the equal requests do, each request within its positions', () => {
    const lanes = crowds.flatMap(neighboursOf);
    for (const requests of lanes) {
      expect(requests.reduce((sum, { outputTokens }) => sum + outputTokens, 0)).toBeGreaterThanOrEqual(24);
      for (const { promptTokens, outputTokens } of requests) {
        expect(promptTokens.length).toBeGreaterThanOrEqual(8);
        expect(promptTokens).toEqual(text.slice(promptTokens[0], promptTokens[0]! + promptTokens.length));
        expect(promptTokens.length + outputTokens).toBeLessThanOrEqual(maxPositions(options));
        expect(outputTokens).toBeGreaterThan(0);
      }
    }
    const kinds = lanes.flat().map(({ deterministic }) => deterministic);
    expect(new Set(kinds)).toEqual(new Set([true, false]));
  });

  it('are those of their seed', () => {
    expect(crowdsOf(text, options)).toEqual(crowds);
    expect(crowdsOf(text, { ...options, seed: 10 })).not.toEqual(crowds);
  });
});

describe('askCrowd', () => {
  const request = (id: number) => ({ promptTokens: [id], outputTokens: 2, deterministic: true });
  const crowd: Crowd = {
    target: { promptTokens: [0], outputTokens: 2 },
    lanes: [
      { kind: 'neighbour', requests: [request(1), request(2), request(3)] },
      { kind: 'target' },
      { kind: 'target' },
    ],
  };

  /** Requests that are answered when told, or end with the signal. */
  function waiting() {
    const asked: number[] = [];
    const answer = new Map<number, (tokens: readonly number[]) => void>();
    const fail = new Map<number, (error: Error) => void>();
    const ask: Ask = ({ promptTokens: [id] }, signal) =>
      new Promise((resolve, reject) => {
        const key = asked.push(id!) - 1;
        answer.set(key, resolve);
        fail.set(key, reject);
        signal.addEventListener('abort', () => reject(new Error('aborted')));
      });
    return { ask, asked, answer, fail };
  }

  const turn = () => new Promise((resolve) => setTimeout(resolve));

  it('begins all lanes at once and gives the answers to the targets in their order', async () => {
    const { ask, asked, answer } = waiting();
    const answers = askCrowd(crowd, ask);
    expect(asked).toEqual([1, 0, 0]);
    answer.get(2)!([5, 6]);
    answer.get(1)!([3, 4]);
    expect(await answers).toEqual([
      [3, 4],
      [5, 6],
    ]);
  });

  it('sends what a neighbour asks one after the other, and no more of it once the targets are answered', async () => {
    const { ask, asked, answer } = waiting();
    const answers = askCrowd(crowd, ask);
    answer.get(0)!([1, 1]);
    await turn();
    expect(asked).toEqual([1, 0, 0, 2]);
    answer.get(1)!([3, 4]);
    answer.get(2)!([3, 4]);
    await answers;
    await turn();
    expect(asked).toEqual([1, 0, 0, 2]);
  });

  it('ends all others and throws where a target fails', async () => {
    const { ask, asked, fail } = waiting();
    const answers = askCrowd(crowd, ask);
    fail.get(1)!(new Error('broken'));
    await expect(answers).rejects.toThrow('broken');
    expect(asked).toEqual([1, 0, 0]);
  });

  it('throws where a neighbour fails while targets write: they had less company than they should', async () => {
    const { ask, answer, fail } = waiting();
    const answers = askCrowd(crowd, ask);
    fail.get(0)!(new Error('no room'));
    await turn();
    answer.get(1)!([3, 4]);
    answer.get(2)!([3, 4]);
    await expect(answers).rejects.toThrow('no room');
  });
});
