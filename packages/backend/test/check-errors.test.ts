import { describe, expect, it } from 'vitest';
import { assert, assertNever, errorCodes, isStetError, StetError, type StetErrorCode } from '../src/index.js';

describe('StetError', () => {
  it.each(Object.keys(errorCodes) as StetErrorCode[])('%s says what to do in a sentence', (code) => {
    const error = new StetError(code, 'a cause');
    expect(code).toMatch(/^STET_ERR_[A-Z_]+$/);
    expect(error.hint).toMatch(/^[A-Z`].*[^.]\.$|^[a-z]+\.json .*\.$/);
  });

  it('carries code, message and cause', () => {
    const cause = new Error('disk');
    const error = new StetError('STET_ERR_BACKEND_FAILED', 'the device went away', { cause });
    expect(error).toMatchObject({
      name: 'StetError',
      code: 'STET_ERR_BACKEND_FAILED',
      message: 'the device went away',
      cause,
    });
  });

  it('is told apart from other errors, also across copies of the package', () => {
    expect(isStetError(new StetError('STET_ERR_BAD_PLAN', 'x'))).toBe(true);
    expect(isStetError(Object.assign(new Error('x'), { name: 'StetError', code: 'STET_ERR_BAD_PLAN' }))).toBe(true);
    expect(isStetError(new Error('x'))).toBe(false);
    expect(isStetError({ name: 'StetError', code: 'STET_ERR_BAD_PLAN' })).toBe(false);
    expect(isStetError(undefined)).toBe(false);
  });
});

describe('assert', () => {
  it('passes what is true and names what is not', () => {
    expect(() => assert(1, 'fine')).not.toThrow();
    expect(() => assert(0, 'blocks are counted')).toThrow('assertion failed: blocks are counted');
    expect(() => assertNever('x' as never)).toThrow('assertion failed: unexpected value "x"');
  });
});
