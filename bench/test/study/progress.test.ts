import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { openProgress, TimeLeft } from '../../src/study/progress.js';

describe('the time left', () => {
  it('is what was expected until something is done, and by the pace of this run then', () => {
    let ms = 1_000;
    const left = new TimeLeft(() => ms);
    left.begin(100, 0);
    expect([left.seconds(), left.percent()]).toEqual([100, 0]);
    ms += 20_000;
    left.done(10);
    expect([left.seconds(), left.percent()]).toEqual([180, 10]);
    expect(left.text()).toBe('3 min 0 s left');
  });

  it('does not take what an earlier run did for its own pace', () => {
    let ms = 0;
    const left = new TimeLeft(() => ms);
    left.begin(100, 60);
    expect([left.seconds(), left.percent()]).toEqual([40, 60]);
    ms = 5_000;
    left.done(10);
    expect([left.seconds(), left.text()]).toEqual([15, '15 s left']);
  });

  it('is nothing where there is nothing to do', () => {
    const left = new TimeLeft(() => 0);
    left.begin(0, 0);
    expect([left.seconds(), left.percent()]).toEqual([0, 100]);
  });
});

describe('the progress of a run', () => {
  it('is a line now and then where there is no terminal', () => {
    let ms = 0;
    const stream = new PassThrough().setEncoding('utf8');
    const progress = openProgress(stream as unknown as NodeJS.WriteStream, () => ms);
    progress.begin(40, 0);
    progress.unit('forward: one');
    ms = 9_000;
    progress.done(10);
    progress.unit('forward: two');
    ms = 10_000;
    progress.unit('forward: three');
    progress.log('a note');
    progress.end();
    expect(stream.read()).toBe('0 %, 40 s left: forward: one\n25 %, 30 s left: forward: three\na note\n');
  });
});
