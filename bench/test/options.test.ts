import { describe, expect, it } from 'vitest';
import { parseCommandLine } from '../src/options.js';

describe('the command line', () => {
  it('has two threads and nothing else by default', () => {
    expect(parseCommandLine(['peers'])).toEqual({
      name: 'peers',
      files: [],
      options: { threads: 2, llamaModels: new Map() },
    });
  });

  it('takes numbers and named files', () => {
    const args = ['--threads', '4', '--rounds', '9', '--llama-bench', 'bin', '--llama-model', 'Q8_0=a=b.gguf'];
    expect(parseCommandLine(args)).toEqual({
      name: undefined,
      files: [],
      options: { threads: 4, rounds: 9, llamaBench: 'bin', llamaModels: new Map([['Q8_0', 'a=b.gguf']]) },
    });
  });

  it("takes llama.cpp's server", () => {
    expect(parseCommandLine(['peers', '--llama-server', 'bin/llama-server']).options).toMatchObject({
      llamaServer: 'bin/llama-server',
    });
  });

  it('takes a backend and rows, which it sorts', () => {
    expect(parseCommandLine(['kernels', '--backend', 'webgpu', '--rows', '64,1,8,64'])).toEqual({
      name: 'kernels',
      files: [],
      options: { threads: 2, backend: 'webgpu', rows: [1, 8, 64], llamaModels: new Map() },
    });
  });

  it('takes how much load there is', () => {
    const args = ['load', '--sockets', '9', '--requests', '70', '--deterministic', '0', '--url', 'http://[::1]:1'];
    expect(parseCommandLine(args).options).toMatchObject({
      sockets: 9,
      requests: 70,
      deterministic: 0,
      url: 'http://[::1]:1',
    });
  });

  it('takes what scenarios are drawn from, and where they write', () => {
    const args = ['online', '--fast', 'batch-shaped', '--seed', '7', '--qps', '4,0.5', '--out', 'there', '--fresh'];
    expect(parseCommandLine(args).options).toMatchObject({
      fast: 'batch-shaped',
      seed: 7,
      qps: [0.5, 4],
      out: 'there',
      fresh: true,
    });
  });

  it('compares the files that stand after a name or an option', () => {
    expect(parseCommandLine(['compare', 'a.json', 'b.json'])).toMatchObject({
      name: 'compare',
      files: ['a.json', 'b.json'],
    });
    expect(parseCommandLine(['--compare', 'a.json', 'b.json'])).toMatchObject({
      name: 'compare',
      files: ['a.json', 'b.json'],
    });
  });

  it('refuses what it does not understand', () => {
    for (const share of ['', '1.1', '-1', 'half'])
      expect(() => parseCommandLine([`--deterministic=${share}`])).toThrow(/--deterministic is a number from 0 to 1/);
    expect(() => parseCommandLine(['--sockets', '0'])).toThrow(/--sockets is a positive integer/);
    expect(() => parseCommandLine(['--threads', '0'])).toThrow(/positive integer/);
    expect(() => parseCommandLine(['--rounds', 'many'])).toThrow(/positive integer/);
    expect(() => parseCommandLine(['--backend', 'tpu'])).toThrow(/cpu, webgpu, webgpu\+cpu, reference, not tpu/);
    expect(() => parseCommandLine(['--rows', '1,,2'])).toThrow(/--rows is a positive integer/);
    expect(() => parseCommandLine(['--llama-model', 'Q8_0'])).toThrow(/NAME=FILE/);
    expect(() => parseCommandLine(['--llama-model', '=x'])).toThrow(/NAME=FILE/);
    expect(() => parseCommandLine(['--fast', 'slow'])).toThrow(/native, batch-shaped, not slow/);
    expect(() => parseCommandLine(['--qps', '1,0'])).toThrow(/--qps has positive numbers, not 0/);
    expect(() => parseCommandLine(['--slow'])).toThrow(/slow/);
  });
});
