import { StetError } from '@stet/backend';
import { describe, expect, it } from 'vitest';
import { createLog, type LogFormat, type LogLevel } from '../src/log.js';

function logOf(level: LogLevel, format: LogFormat) {
  const lines: string[] = [];
  return { log: createLog(level, format, { write: (line) => void lines.push(line) }), lines };
}

describe('the log of `stet serve`', () => {
  it('is one JSON object on a line, with time, level and fields', () => {
    const { log, lines } = logOf('info', 'json');
    log.info({ requestId: 'r', key: 'alice', status: 200 }, 'request answered');
    log.debug({}, 'too little');
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^[^\n]+\n$/);
    expect(JSON.parse(lines[0]!)).toEqual({
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      requestId: 'r',
      key: 'alice',
      status: 200,
      msg: 'request answered',
    });
  });

  it('is a line for people where that is asked for', () => {
    const { log, lines } = logOf('debug', 'pretty');
    log.warn({ socket: 'ab-12', streams: 2, note: 'two words' }, 'slow reader');
    log.debug('plain');
    expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d\.\d{3} warn {2}slow reader socket=ab-12 streams=2 note="two words"\n$/);
    expect(lines[1]).toMatch(/^[\d:.]+ debug plain\n$/);
  });

  it('says of an error what it is, with its cause, and nothing that hangs on it', () => {
    const { log, lines } = logOf('info', 'json');
    const cause = Object.assign(new Error('inner'), { request: { prompt: 'canary' } });
    log.error({ err: new StetError('STET_ERR_INTERNAL', 'outer', { cause }) }, 'failed');
    expect(JSON.parse(lines[0]!).err).toEqual({
      name: 'StetError',
      code: 'STET_ERR_INTERNAL',
      message: 'outer',
      stack: expect.stringContaining('log.test.ts'),
      cause: { name: 'Error', message: 'inner', stack: expect.any(String) },
    });
    const pretty = logOf('info', 'pretty');
    pretty.log.error({ err: new Error('boom') }, 'failed');
    expect(pretty.lines[0]).toMatch(/ error failed\nError: boom\n {4}at /);
    expect(lines.join() + pretty.lines.join()).not.toContain('canary');
  });

  it('hides what must not be logged, wherever somebody puts it', () => {
    for (const format of ['json', 'pretty'] as const) {
      const { log, lines } = logOf('info', format);
      log.info({ prompt: 'canary', authorization: 'canary', ticket: 'canary', headers: { cookie: 'canary' } }, 'a');
      log.info(
        { request: { prompt: 'canary', messages: ['canary'], headers: { a: 'canary' }, apiKey: 'canary' } },
        'b',
      );
      expect(lines).toHaveLength(2);
      expect(lines.join()).toContain('(hidden)');
      expect(lines.join()).not.toContain('canary');
    }
  });

  it('can be silent', () => {
    const { log, lines } = logOf('silent', 'json');
    log.error({}, 'nothing');
    expect(lines).toEqual([]);
  });
});
