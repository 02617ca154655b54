import { createHash } from 'node:crypto';
import { newApiKey, parseKeyFile } from '@stet/server';
import { describe, expect, it } from 'vitest';
import { KeyRing } from '../src/auth/keys.js';

const secret = 'SECRET-'.padEnd(32, 'x');
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

describe('a file of keys', () => {
  it('gives the keys that stand in it', () => {
    const keys = [
      { name: 'alice', sha256: sha256('a') },
      { name: 'batch.jobs-2', key: secret, limits: { maxSockets: 1, maxStreams: 2, requestsPerMinute: 3 } },
    ];
    expect(parseKeyFile(JSON.stringify({ keys }))).toEqual(keys);
  });

  const alice = { name: 'alice', key: secret };
  it.each<[string, unknown, RegExp]>([
    ['not JSON', `{"keys": [${secret}]}`, /^the keys are not JSON$/],
    ['no object', [alice], /^the file: expected object$/],
    ['empty', {}, /^keys: expected array$/],
    ['without a key', { keys: [] }, /^keys: expected at least 1$/],
    ['of more than keys', { keys: [alice], [secret]: 1 }, /^the file: has a field that is not known$/],
    ['of a key without a name', { keys: [{ key: secret }] }, /^keys\[0\]\.name: expected string$/],
    [
      'of a key with a strange name',
      { keys: [{ ...alice, name: `${secret} ` }] },
      /^keys\[0\]\.name: expected letters/,
    ],
    [
      'of a key too short',
      { keys: [{ name: 'a', key: 'SECRET' }] },
      /^keys\[0\]\.key: expected at least 24 characters$/,
    ],
    ['of a key that no header can hold', { keys: [{ name: 'a', key: `${secret} ` }] }, /bearer token$/],
    ['of a key too long', { keys: [{ name: 'a', key: secret.repeat(20) }] }, /expected at most 512 characters$/],
    ['of a hash that is none', { keys: [{ name: 'a', sha256: secret }] }, /expected 64 hexadecimal digits$/],
    ['of a key that is a number', { keys: [{ name: 'a', key: 123456789 }] }, /^keys\[0\]\.key: expected string$/],
    ['of neither key nor hash', { keys: [{ name: 'a' }] }, /^keys\[0\]: expected either key or sha256$/],
    ['of both', { keys: [{ ...alice, sha256: sha256('a') }] }, /^keys\[0\]: expected either key or sha256$/],
    ['of an unknown field', { keys: [{ ...alice, [secret]: 1 }] }, /^keys\[0\]: has a field that is not known$/],
    ['of an unknown limit', { keys: [{ ...alice, limits: { maxSokets: 1 } }] }, /^keys\[0\]\.limits: has a field/],
    ['of a limit of nothing', { keys: [{ ...alice, limits: { maxStreams: 0 } }] }, /maxStreams: expected at least 1$/],
    ['of half a limit', { keys: [{ ...alice, limits: { maxStreams: 1.5 } }] }, /maxStreams: expected int/],
  ])('that is %s is refused, and what stands in it is not repeated', (_, file, message) => {
    let thrown: unknown;
    try {
      parseKeyFile(typeof file === 'string' ? file : JSON.stringify(file));
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toMatchObject({ code: 'STET_ERR_BAD_CONFIG', message: expect.stringMatching(message) });
    const { message: said, stack, cause } = thrown as Error;
    expect([said, stack, String(cause)].join()).not.toMatch(/SECRET|123456789/);
  });
});

describe('a new key', () => {
  it('is never the same, fits a header, and is found by its hash', () => {
    const made = Array.from({ length: 50 }, () => newApiKey());
    expect(new Set(made.map(({ key }) => key)).size).toBe(50);
    for (const { key, sha256: hash } of made) {
      expect(key).toMatch(/^stet-[A-Za-z0-9_-]{43}$/);
      expect(hash).toBe(sha256(key));
    }
    const ring = new KeyRing([{ name: 'new', sha256: made[0]!.sha256.toUpperCase() }]);
    expect(ring.find(made[0]!.key)?.name).toBe('new');
  });
});

describe('the keys of a server', () => {
  const key = (name: string) => `key-of-${name}-`.padEnd(40, '0');
  const entry = (name: string, limits = {}) => ({ name, key: key(name), limits });

  it('tell whose a key is, wherever it stands among them, and nothing of others', () => {
    const ring = new KeyRing(['a', 'b', 'c'].map((name) => entry(name)));
    for (const name of ['a', 'b', 'c']) expect(ring.find(key(name))?.name).toBe(name);
    for (const other of ['', key('d'), key('a').slice(1), `${key('a')}0`, sha256(key('a'))])
      expect(ring.find(other)).toBeUndefined();
  });

  it('keep who stays as the same principal with new limits, and name who is no more', () => {
    const ring = new KeyRing([entry('stays'), entry('goes'), entry('changes')]);
    const [stays, goes, changes] = ['stays', 'goes', 'changes'].map((name) => ring.find(key(name))!);
    const revoked = ring.replace([
      { ...entry('changes'), key: key('other') },
      entry('stays', { maxStreams: 5 }),
      entry('comes'),
    ]);
    expect(new Set(revoked)).toEqual(new Set([goes, changes]));
    expect(ring.find(key('stays'))).toBe(stays);
    expect(stays!.limits).toEqual({ maxStreams: 5 });
    expect(ring.find(key('goes'))).toBeUndefined();
    expect(ring.find(key('changes'))).toBeUndefined();
    expect(ring.find(key('other'))).not.toBe(changes);
    expect([ring.has(stays!), ring.has(goes!), ring.has(changes!)]).toEqual([true, false, false]);
  });

  it('stay as they are when the new ones are not in order', () => {
    const ring = new KeyRing([entry('a', { maxStreams: 1 })]);
    const { limits } = ring.find(key('a'))!;
    const twice = [entry('a'), { ...entry('b'), name: 'a' }];
    const shared = [entry('a'), { name: 'b', sha256: sha256(key('a')) }];
    expect(() => ring.replace(twice)).toThrow('two keys are named "a"');
    expect(() => ring.replace(shared)).toThrow('the key of "b" is that of another name');
    expect(() => ring.replace([])).toThrow('keys: expected at least 1');
    expect(ring.find(key('a'))!.limits).toBe(limits);
    expect(ring.find(key('b'))).toBeUndefined();
  });
});
