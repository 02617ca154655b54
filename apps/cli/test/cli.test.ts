import { cpuFeatures } from '@stet/backend-cpu';
import { describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { withoutGpu } from '../../../packages/backend-webgpu/test/support/gpu.js';
import { finished, isBuilt, startStet, builtTitle as title } from './support/stet.js';

const cpu = cpuFeatures();
const onCpu = cpu.available ? 'on the CPU backend' : `on the CPU backend (skipped: ${cpu.reason})`;

const start = (...args: string[]) => startStet(args);
const stet = (...args: string[]) => finished(start(...args));

/** Resolves when `stream` has said something that fits. */
function said(stream: NodeJS.ReadableStream, pattern: RegExp): Promise<RegExpExecArray> {
  let text = '';
  return new Promise((resolve) => {
    stream.on('data', (chunk) => {
      text += String(chunk);
      const match = pattern.exec(text);
      if (match) resolve(match);
    });
  });
}

const STORY = ['run', 'Once upon a time', '--max-tokens', '20'];

describe.skipIf(!isBuilt)(title, () => {
  it('says what is wrong in one line, what to do in the next, and with which code', async () => {
    const usage: [string[], RegExp][] = [
      [[], /^Usage: stet/],
      [['run'], /^error USAGE: missing required argument 'prompt'\nhint: /],
      [['run', 'x', '--temprature', '1'], /^error USAGE: unknown option '--temprature'/],
      [['run', 'x', '--backend', 'gpu'], /^error USAGE: .*'--backend <name>' argument 'gpu' is invalid/],
      [['run', 'x', '--max-tokens', '0'], /^error USAGE: .*must be an integer from 1/],
      [['run', 'x', '--temperature', 'hot'], /^error USAGE: .*must be a number/],
      [['run', 'x', '--policy', 'fast'], /^error USAGE: .*'--policy <name>' argument 'fast' is invalid/],
      [['run', 'x', '--window', '0'], /^error USAGE: .*must be an integer from 1 to 256/],
      [['run', 'x', 'y'], /^error USAGE: too many arguments/],
      [['sing'], /^error USAGE: unknown command 'sing'/],
    ];
    const failed: [string[], RegExp][] = [
      [['run', 'x', '--model', '/nowhere'], /^error STET_ERR_MODEL_NOT_FOUND: .*nowhere\nhint: .+\n$/],
      [['run', 'x', '--backend', 'reference', '--threads', '2'], /^error STET_ERR_UNSUPPORTED: --threads/],
      [['run', 'x', '--backend', 'webgpu', '--isa', 'avx2'], /^error STET_ERR_UNSUPPORTED: --threads and --isa/],
      [['run', 'x', '--backend', 'reference', '--top-p', '2'], /^error STET_ERR_BAD_REQUEST: topP/],
      [['run', 'x', '--backend', 'reference', '--repetition-penalty', '0'], /^error STET_ERR_BAD_REQUEST: repetitionP/],
      [['run', 'x', '--policy', 'direct', '--window', '4'], /^error STET_ERR_UNSUPPORTED: --window .* not of direct/],
      [['run', 'x', '--backend', 'reference', '--max-tokens', '2000'], /^error STET_ERR_CONTEXT_LENGTH: /],
      [['serve', '--backend', 'reference', '--host', '0.0.0.0'], /^error STET_ERR_UNSUPPORTED: host 0\.0\.0\.0/m],
    ];
    const expectAll = async (cases: [string[], RegExp][], code: number) => {
      for (const [args, stderr] of cases) {
        const outcome = await stet(...args);
        expect([args, outcome]).toEqual([args, { code, stdout: '', stderr: expect.stringMatching(stderr) }]);
        expect(outcome.stderr).not.toMatch(/^\s+at /m);
      }
    };
    await expectAll(usage, 2);
    await expectAll(failed, 1);
  });

  it('shows help and version', async () => {
    expect(await stet('--version')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
    expect(await stet('run', '--help')).toMatchObject({ code: 0, stdout: expect.stringContaining('--deterministic') });
  });

  it('gives the same deterministic text on the reference, and ends cleanly at ctrl-C', async () => {
    const text = (await stet(...STORY, '--deterministic', '--backend', 'reference')).stdout;
    expect(text.length).toBeGreaterThan(20);
    const child = start('run', 'Once upon a time', '--backend', 'reference', '--max-tokens', '900', '--ignore-eos');
    const outcome = finished(child);
    await said(child.stdout!, /\w+ \w+/);
    child.kill('SIGINT');
    const { code, stdout, stderr } = await outcome;
    expect({ code, stderr }).toEqual({ code: 130, stderr: '' });
    expect(stdout.startsWith(text.slice(0, 5))).toBe(true);
  });

  it(`says with --json what doctor found${withoutGpu ? `, without WebGPU (${withoutGpu})` : ''}`, {
    timeout: 600_000,
  }, async () => {
    const { code, stdout } = await stet('doctor', '--json');
    const report = JSON.parse(stdout) as {
      model: { status: string };
      backends: {
        name: string;
        status: string;
        selfTest?: { failures: string[]; vectors: number };
        answerHash?: string;
        features: string[];
        reason?: string;
        guarantee?: string;
      }[];
    };
    expect(code).toBe(0);
    expect(report.model.status).toBe('ready');
    const ready = report.backends.filter(({ status }) => status === 'ready');
    expect(report.backends.map(({ name }) => name)).toEqual(['cpu', 'webgpu', 'reference']);
    expect(ready.map(({ name }) => name)).toEqual([
      ...(cpu.available ? ['cpu'] : []),
      ...(withoutGpu ? [] : ['webgpu']),
      'reference',
    ]);
    const [, webgpu] = report.backends;
    expect(webgpu).toMatchObject(
      withoutGpu
        ? { status: 'unavailable', features: [], reason: expect.stringContaining('STET_ERR_BACKEND_UNAVAILABLE') }
        : { guarantee: 'portable', features: expect.arrayContaining([expect.stringMatching(/^maxBufferSize \d+$/)]) },
    );
    for (const { selfTest } of ready) expect(selfTest).toMatchObject({ failures: [], vectors: expect.any(Number) });
    expect(new Set(ready.map(({ answerHash }) => answerHash)).size).toBe(1);
    // WebGPU is not asked again: where it runs on the CPU its test takes long.
    const withoutDriver = { VK_DRIVER_FILES: '/nowhere', VK_ICD_FILENAMES: '/nowhere' };
    const nowhere = finished(startStet(['doctor', '--model', '/nowhere', '--json'], withoutDriver));
    expect(await nowhere).toMatchObject({ code: 1 });
  });
});

describe.skipIf(!isBuilt || !cpu.available)(`${title} ${onCpu}`, () => {
  it('prints the text alone on stdout, the same deterministic one for any threads and instruction set', async () => {
    const reference = await stet(...STORY, '--deterministic', '--backend', 'reference', '--stats');
    const hash = /hash +([0-9a-f]{64})/.exec(reference.stderr)![1];
    const isas = cpu.available ? cpu.isas.filter((isa) => isa.available).map((isa) => isa.name) : [];
    for (const isa of isas) {
      for (const threads of ['1', '3']) {
        const outcome = await stet(...STORY, '--deterministic', '--stats', '--isa', isa, '--threads', threads);
        expect(outcome).toMatchObject({ code: 0, stdout: reference.stdout });
        expect(outcome.stderr).toContain(`hash         ${hash}`);
      }
    }
  });

  it('prints the same deterministic text under every policy, and counts windows and guesses', async () => {
    const story = [...STORY, '--deterministic', '--stats', '--max-tokens', '150', '--ignore-eos'];
    const ways: [string[], RegExp][] = [
      [[], /^verify +auto: /m],
      [['--policy', 'direct'], /^verify +direct: 0 windows/m],
      [['--policy', 'dvr', '--window', '4'], /^verify +dvr\(4\): [1-9]\d* windows/m],
      [['--policy', 'direct', '--draft'], /^draft +prompt-lookup\(3,8\): [1-9]\d* tokens guessed, \d+ accepted$/m],
    ];
    const texts = new Set<string>();
    for (const [options, stats] of ways) {
      const outcome = await stet(...story, ...options);
      expect(outcome).toMatchObject({ code: 0, stderr: expect.stringMatching(stats) });
      texts.add(outcome.stdout);
    }
    expect(texts.size).toBe(1);
    const penalized = await stet(...story, '--repetition-penalty', '1.5');
    expect(texts.has(penalized.stdout)).toBe(false);
  });

  it('prints the first token within 2 s of a cold start', async () => {
    const seconds: number[] = [];
    for (let i = 0; i < 3; i++) {
      const { stderr } = await stet(...STORY, '--stats');
      seconds.push(Number(/first token (\d+\.\d+) s after/.exec(stderr)![1]));
    }
    expect(Math.min(...seconds)).toBeLessThan(2);
  });

  it('prints log-probabilities on stderr and ends at a stop string', async () => {
    const outcome = await stet(...STORY, '--logprobs', '2', '--stop', 'little');
    expect(outcome.stdout.endsWith('a ')).toBe(true);
    const rows = outcome.stderr.trimEnd().split('\n');
    expect(rows.length).toBeGreaterThan(3);
    for (const row of rows) expect(row).toMatch(/^\d+\t".+"\t-\d+\.\d{6}\t".+" -?\d/);
  });

  it('ends quietly when the reader of its output goes', async () => {
    const child = start('run', 'Once upon a time', '--max-tokens', '1000', '--ignore-eos');
    const outcome = finished(child);
    await said(child.stdout!, /\w+/);
    child.stdout!.destroy();
    expect(await outcome).toMatchObject({ code: 0, stderr: '' });
  });

  it('serves until SIGTERM', async () => {
    const child = start('serve', '--port', '0', '--kv-memory', '16');
    const outcome = finished(child);
    const [, url] = await said(child.stdout!, /stream: (ws:\S+)\)/);
    const socket = new WebSocket(url!, 'stet.v1');
    const frames: { type: string; text?: string }[] = [];
    await new Promise<void>((resolve) => {
      socket.on('open', () =>
        socket.send(JSON.stringify({ type: 'generate', id: 'a', prompt: 'Once upon a time', maxTokens: 8 })),
      );
      socket.on('message', (data) => {
        frames.push(JSON.parse(String(data)) as (typeof frames)[number]);
        if (frames.at(-1)!.type === 'done') resolve();
      });
    });
    socket.close();
    expect(frames.map((frame) => frame.text ?? '').join('')).toMatch(/^, there was/);
    child.kill('SIGTERM');
    expect(await outcome).toMatchObject({ code: 0, stderr: expect.stringContaining('draining') });
  });

  it('shows in the demo that deterministic answers repeat, with one line of JSON on stdout', {
    timeout: 180_000,
  }, async () => {
    const { code, stdout, stderr } = await stet('demo', '--quick', '--json');
    expect([code, stdout.trimEnd().split('\n').length]).toEqual([0, 1]);
    const rate = expect.toSatisfy((value: number) => value > 0) as number;
    expect(JSON.parse(stdout)).toEqual({
      deterministic: { runs: 6, distinct: 1, distinctLogprobs: 1 },
      ordinary: { runs: 6, distinct: expect.any(Number), firstDifference: expect.toSatisfy(isIndexOrNull) },
      ...{ windows: expect.any(Number), rollbacks: expect.any(Number), recomputedTokens: expect.any(Number) },
      tokensPerSecond: { none: rate, oneOf11: rate, all: rate },
    });
    expect(stderr).toMatch(/crowd seed \d+/);
    expect(stderr).not.toContain('Warning');
  });
});

function isIndexOrNull(value: unknown): boolean {
  return value === null || (Number.isInteger(value) && (value as number) >= 0);
}
