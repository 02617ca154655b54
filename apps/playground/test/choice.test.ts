import { describe, expect, it } from 'vitest';
import { addressWithChoice, choiceFromAddress, serverBase } from '../src/source/choice.js';

describe('the choice of who answers', () => {
  it.each([
    ['', undefined],
    ['?other=1', undefined],
    ['?backend=webgpu', { kind: 'browser', backend: 'webgpu', policy: 'auto' }],
    ['?backend=reference&policy=dvr', { kind: 'browser', backend: 'reference', policy: 'dvr' }],
    ['?backend=server', { kind: 'server' }],
    ['?backend=server&server=wss%3A%2F%2Fstet.example.org', { kind: 'server', address: 'https://stet.example.org/' }],
  ])('is read from the address %j', (search, choice) => {
    expect(choiceFromAddress(search)).toEqual(choice);
  });

  it.each([
    ['?backend=magic', 'there is no backend "magic": choose server, webgpu or reference'],
    ['?backend=webgpu&policy=magic', 'there is no policy "magic": choose auto, dvr or direct'],
    ['?backend=server&server=ftp%3A%2F%2Fa', '"ftp://a" is no address of a server, such as http://127.0.0.1:8642'],
  ])('is refused in the address %j', (search, message) => {
    expect(() => choiceFromAddress(search)).toThrow(expect.objectContaining({ code: 'STET_ERR_UNSUPPORTED', message }));
  });

  it('is written into the address and read back, without what the choice before left there', () => {
    const server = { kind: 'server', address: 'http://127.0.0.1:8642/' } as const;
    const browser = { kind: 'browser', backend: 'reference', policy: 'direct' } as const;
    const first = addressWithChoice('http://a.example/page/?x=1#top', server);
    expect(choiceFromAddress(first.search)).toEqual(server);
    const second = addressWithChoice(first.href, browser);
    expect(choiceFromAddress(second.search)).toEqual(browser);
    expect(second.href).toBe('http://a.example/page/?x=1&backend=reference&policy=direct#top');
  });
});

describe('the address of a server', () => {
  it.each([
    ['http://127.0.0.1:8642', 'http://127.0.0.1:8642/'],
    ['ws://127.0.0.1:8642/v1/stream', 'http://127.0.0.1:8642/'],
    [' WSS://stet.example.org ', 'https://stet.example.org/'],
    ['localhost:8642', 'http://localhost:8642/'],
    ['[::1]:8642', 'http://[::1]:8642/'],
    ['https://example.org/stet?x=1#y', 'https://example.org/stet/'],
    ['https://example.org/stet/v1/stream/', 'https://example.org/stet/'],
  ])('is what a user means by %j', (text, base) => {
    expect(serverBase(text)).toBe(base);
    expect(serverBase(base)).toBe(base);
  });

  it.each(['', ' ', 'http://', 'javascript://alert(1)', 'file:///etc', 'http://key@example.org', 'a b'])(
    'is not %j',
    (text) => {
      expect(() => serverBase(text)).toThrow('is no address of a server');
    },
  );
});
