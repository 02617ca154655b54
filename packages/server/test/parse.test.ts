import { fc, test } from '@fast-check/vitest';
import { clientFrameSchema, parseClientFrame, serverFrameSchema } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';

describe('parseClientFrame', () => {
  test.prop([fc.oneof(fc.string(), fc.json())])('never throws', (text) => {
    expect(['generate', 'cancel', 'ping', 'refused']).toContain(parseClientFrame(text).kind);
  });

  it('never repeats a prompt in what it says', () => {
    for (const fields of [{ prompt: ['secret'] }, { prompt: 'secret', seed: 'secret' }, { messages: ['secret'] }]) {
      const parsed = parseClientFrame(JSON.stringify({ type: 'generate', id: 'a', ...fields }));
      expect(parsed.kind).toBe('refused');
      expect(JSON.stringify(parsed)).not.toContain('secret');
    }
  });

  it('takes a frame full of token ids, or refuses it, in little time', () => {
    for (const token of ['7', '"a"']) {
      const text = `{"type":"generate","id":"a","promptTokens":[${new Array(250_000).fill(token).join(',')}]}`;
      const start = performance.now();
      expect(parseClientFrame(text).kind).toBe(token === '7' ? 'generate' : 'refused');
      expect(performance.now() - start).toBeLessThan(1000);
    }
  });
});

describe('the schemas of the protocol', () => {
  it('can be written as JSON schemas', () => {
    for (const schema of [clientFrameSchema, serverFrameSchema]) {
      const text = JSON.stringify(z.toJSONSchema(schema, { unrepresentable: 'any' }));
      expect(text).toContain('"additionalProperties":false');
    }
    const generate = JSON.stringify(z.toJSONSchema(clientFrameSchema, { unrepresentable: 'any' }));
    expect(generate).toContain('"promptTokens":{"type":"array","items":{"type":"integer","minimum":0}}');
  });
});
