import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cpuFeatures } from '@stet/backend-cpu';
import { portableFingerprint } from '@stet/engine';
import { loadModelPath } from '@stet/model/node';
import { talesFolder } from '@stet/tales';
import { afterAll, describe, expect, it } from 'vitest';
import { type InspectReport, inspectModel } from '../src/inspect-report.js';
import { loadingLine } from '../src/loading-line.js';
import { type HubFile, REPO, startHub } from './support/hub-server.js';
import { builtTitle, finished, isBuilt, startStet, stet } from './support/stet.js';

const root = mkdtempSync(join(tmpdir(), 'stet-models-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const cpu = cpuFeatures();
const onCpu = cpu.available ? '' : ` (skipped: ${cpu.reason})`;
const shared = process.env.STET_SHARED ?? fileURLToPath(new URL('../../../../shared', import.meta.url));
const smollm2 = process.env.STET_MODEL_SMOLLM2 ?? join(shared, 'models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf');
const hasSmollm2 = existsSync(smollm2);
const withSmollm2 = hasSmollm2 ? '' : ' (skipped: the file of SmolLM2 is not here, set STET_MODEL_SMOLLM2)';
const tiny = join(shared, 'models/tiny');
const hasTiny = existsSync(tiny);
const withTiny = hasTiny ? '' : ' (skipped: the small models are not here, set STET_SHARED)';
const tales = fileURLToPath(talesFolder);

function talesFiles(): Record<string, HubFile> {
  const names = ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'];
  const small = names.map((name): [string, HubFile] => [name, { bytes: readFileSync(join(tales, name)) }]);
  const weights = { bytes: readFileSync(join(tales, 'model.safetensors')), isLarge: true };
  return { ...Object.fromEntries(small), 'model.safetensors': weights };
}

describe('inspectModel', () => {
  it('says of the embedded model what its config says, and what each format would have', async () => {
    const model = await loadModelPath('tales');
    const report = inspectModel(model);
    await model.close();
    const config = JSON.parse(readFileSync(join(tales, 'config.json'), 'utf8')) as Record<string, number>;
    expect(report.shape).toEqual({
      layerCount: config.num_hidden_layers,
      hiddenSize: config.hidden_size,
      headCount: config.num_attention_heads,
      kvHeadCount: config.num_key_value_heads,
      headSize: config.hidden_size! / config.num_attention_heads!,
      feedForwardSize: config.intermediate_size,
      vocabSize: config.vocab_size,
      contextLength: config.max_position_embeddings,
      head: 'tied',
      windows: [],
      layersWithoutRope: 0,
    });
    expect(report.tokenizer).toMatchObject({ kind: 'BPE', eos: [{ id: 0, text: '<|endoftext|>' }] });
    expect(report.storage.tensorTypes).toEqual([{ type: 'BF16', tensorCount: 56, bytes: 2 * report.parameterCount }]);
    expect(report.formats.map(({ format }) => format)).toEqual(['bf16', 'q8', 'q4']);
    expect(report.auto.uses).toEqual([{ format: 'bf16', matrixCount: 43, why: 'BF16 as it is' }]);
    for (const { format, fingerprint } of [...report.formats, { ...report.auto, format: 'auto' } as const]) {
      const loaded = await loadModelPath('tales', { format });
      expect(fingerprint).toBe(portableFingerprint(loaded));
      await loaded.close();
    }
  });

  it.skipIf(!hasSmollm2)(`reads a GGUF file${withSmollm2}`, async () => {
    const model = await loadModelPath(smollm2);
    const report = inspectModel(model);
    await model.close();
    expect(report).toMatchObject({
      ...{ architecture: 'llama', rope: { type: 'default', theta: 100_000 } },
      shape: { layerCount: 30, hiddenSize: 576, headCount: 9, kvHeadCount: 3, headSize: 64, head: 'tied' },
      tokenizer: { kind: 'gpt2 (smollm)', bos: { id: 1, text: '<|im_start|>' } },
    });
    expect(report.storage.tensorTypes.map(({ type, tensorCount }) => [type, tensorCount])).toEqual([
      ['Q4_1', 210],
      ['Q8_0', 1],
      ['F32', 61],
    ]);
    expect(report.chatTemplates.default).toContain('<|im_start|>');
    expect(report.auto.uses).toEqual([
      { format: 'q4', matrixCount: 210, why: 'Q4_1 keeps its integers' },
      { format: 'q8', matrixCount: 1, why: 'Q8_0 is rounded to eight bits' },
    ]);
    // Five bits a weight of the 210 matrices, and nine of the embedding.
    const embedding = 49152 * 576;
    const matrices = report.parameterCount - embedding - 61 * 576;
    expect(report.auto.weightBytes).toBe((matrices * 5) / 8 + (embedding * 9) / 8 + 61 * 576 * 4);
  });
});

describe('loadingLine', () => {
  function fakeStream(isTTY: boolean): { stream: NodeJS.WriteStream; written: string[] } {
    const written: string[] = [];
    const stream = { isTTY, write: (text: string) => written.push(text) } as unknown as NodeJS.WriteStream;
    return { stream, written };
  }

  it('shows a terminal how far a load of over a second is, at most ten times a second, and goes away', () => {
    const { stream, written } = fakeStream(true);
    let nowMs = 0;
    const line = loadingLine(stream, () => nowMs);
    for (nowMs = 0; nowMs <= 1500; nowMs += 10) line.onProgress({ phase: 'weights', done: nowMs, total: 3000 });
    expect(written[0]).toBe('\r\x1b[Kloading weights: 33 %');
    expect(written.length).toBe(6);
    line.end();
    line.end();
    expect(written.slice(6)).toEqual(['\r\x1b[K']);
  });

  it('shows nothing of short loads and to what is no terminal', () => {
    for (const isTTY of [true, false]) {
      const { stream, written } = fakeStream(isTTY);
      let nowMs = 0;
      const line = loadingLine(stream, () => nowMs);
      line.onProgress({ phase: 'files', done: 1, total: 2 });
      nowMs = isTTY ? 999 : 5000;
      line.onProgress({ phase: 'files', done: 2, total: 2 });
      line.end();
      expect(written).toEqual([]);
    }
  });
});

describe.skipIf(!isBuilt)(builtTitle, () => {
  it('inspects a model as text and as JSON, and ends with code 1 where there is none', async () => {
    const text = await stet(['inspect', 'tales']);
    expect(text).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^architecture +llama, 5\.5 M/m) });
    expect(text.stdout).toMatch(/^chat template +none: the model was not made for messages$/m);
    const json = await stet(['inspect', tales, '--json']);
    const report = JSON.parse(json.stdout) as InspectReport;
    for (const { fingerprint } of report.formats) expect(text.stdout).toContain(fingerprint);
    expect(text.stdout).toMatch(/^formats +bf16 for 43 matrices: BF16 as it is\nmemory auto +1/m);
    expect(await stet(['inspect', 'no-org/no-name'], { HF_HUB_CACHE: root })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^error STET_ERR_MODEL_NOT_FOUND: .*`stet pull no-org\/no-name` fetches it\nhint: /,
      ),
    });
  });

  it.skipIf(!hasTiny)(`says windows, ropes and what is wrong with the text${withTiny}`, async () => {
    const reportOf = async (name: string) => {
      const { code, stdout } = await stet(['inspect', join(tiny, name), '--json']);
      expect(code).toBe(0);
      return JSON.parse(stdout) as InspectReport;
    };
    const configOf = (name: string) => JSON.parse(readFileSync(join(tiny, name, 'config.json'), 'utf8'));
    const mistral = await reportOf('mistral-sliding');
    const { sliding_window: windowSize, num_hidden_layers: layerCount } = configOf('mistral-sliding');
    expect(mistral.shape.windows).toEqual([{ windowSize, layerCount }]);
    expect(mistral.tokenizerProblem).toMatch(/^STET_ERR_BAD_TOKENIZER: .*has no tokenizer\.json/);
    const smollm3 = await reportOf('smollm3');
    const rotated = configOf('smollm3').no_rope_layers as number[];
    expect(smollm3.shape.layersWithoutRope).toBe(rotated.filter((isRotated) => isRotated === 0).length);
    expect(smollm3.shape.layersWithoutRope).toBeGreaterThan(0);
    expect((await reportOf('llama-yarn')).rope.type).toBe('yarn');
    const text = await stet(['inspect', join(tiny, 'llama-yarn')]);
    expect(text.stdout).toMatch(/^rope +yarn, base \d+, factor /m);
    expect(text.stdout).toMatch(/^tokenizer +unusable \(STET_ERR_BAD_TOKENIZER: /m);
    const refused = await stet(['inspect', join(tiny, 'gemma3')]);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/^error STET_ERR_UNKNOWN_ARCHITECTURE: /) });
  });

  it('pulls a model, says its path, and runs it by its name and its path without the network', async () => {
    await using hub = await startHub(talesFiles(), { token: 'hf_secret' });
    const env = { HF_ENDPOINT: hub.url, HF_HOME: join(root, 'home'), MY_TOKEN: 'hf_secret', HF_TOKEN: '' };
    const refused = await stet(['pull', REPO], env);
    expect(refused).toMatchObject({
      ...{ code: 1, stdout: '' },
      stderr: expect.stringMatching(/^error STET_ERR_DOWNLOAD: .*set HF_TOKEN.*\nhint: .*\n$/),
    });
    const pulled = await stet(['pull', REPO, '--token-env', 'MY_TOKEN'], env);
    expect(pulled).toMatchObject({ code: 0, stderr: expect.stringContaining('5 files, 10.5 MiB\nconfig.json') });
    expect(pulled.stderr).not.toContain('secret');
    const path = pulled.stdout.trimEnd();
    expect(path.startsWith(join(root, 'home', 'hub'))).toBe(true);
    const offline = { ...env, HF_ENDPOINT: 'http://127.0.0.1:9' };
    const run = (model: string) =>
      stet(['run', 'Once upon a time', '--model', model, '--max-tokens', '4', '--backend', 'reference'], offline);
    const embedded = await run('tales');
    for (const model of [REPO, path]) expect(await run(model)).toEqual(embedded);
    expect((await stet(['inspect', REPO], offline)).stdout).toMatch(/^model +tiny-org\/tiny\.model_1$/m);
  });

  it('stops a pull at ctrl-C with code 130, and goes on with the next', async () => {
    await using hub = await startHub(talesFiles());
    const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: join(root, 'stopped') };
    hub.fault = (path) => (path.includes('/store/') ? { kind: 'stall', afterBytes: 4 * 2 ** 20 } : undefined);
    const child = startStet(['pull', REPO], env);
    const outcome = finished(child);
    const blobs = join(root, 'stopped', 'models--tiny-org--tiny.model_1', 'blobs');
    const hasPart = () =>
      existsSync(blobs) &&
      readdirSync(blobs).some((name) => name.endsWith('.incomplete') && statSync(join(blobs, name)).size > 2 ** 20);
    while (!hasPart()) await new Promise((resolve) => setTimeout(resolve, 20));
    child.kill('SIGINT');
    expect(await outcome).toMatchObject({
      code: 130,
      stdout: '',
      stderr: expect.stringContaining('goes on from here'),
    });
    hub.fault = () => undefined;
    hub.requests.length = 0;
    expect(await stet(['pull', REPO], env)).toMatchObject({ code: 0, stdout: expect.stringContaining(hub.commit) });
    const ranges = hub.requests.flatMap(({ line, range }) => (line.includes('/store/') ? [range] : []));
    expect(ranges).toEqual([expect.stringMatching(/^bytes=[1-9]\d+-$/)]);
  });

  it('refuses messages for a model without a template, and a system text without messages', async () => {
    const onReference = ['--backend', 'reference', '--max-tokens', '2'];
    expect(await stet(['run', 'Hello', '--chat', ...onReference])).toMatchObject({
      ...{ code: 1, stdout: '' },
      stderr: expect.stringMatching(/^error STET_ERR_BAD_CHAT_TEMPLATE: the model tales has no chat template/),
    });
    expect(await stet(['run', 'Hello', '--system', 'Be brief.', ...onReference])).toMatchObject({
      ...{ code: 1, stdout: '' },
      stderr: expect.stringMatching(/^error STET_ERR_UNSUPPORTED: --system is an option of --chat alone/),
    });
  });

  it('uses the context that is asked for, and no longer one than the model has', async () => {
    const story = ['run', 'Once upon a time', '--backend', 'reference', '--ignore-eos'];
    const short = await stet([...story, '--context', '16', '--max-tokens', '16']);
    expect(short).toMatchObject({ code: 1, stderr: expect.stringContaining('STET_ERR_CONTEXT_LENGTH') });
    expect(await stet([...story, '--context', '16', '--max-tokens', '4'])).toMatchObject({ code: 0, stderr: '' });
    const long = await stet([...story, '--context', '2048', '--max-tokens', '4']);
    expect(long).toMatchObject({ code: 1, stderr: expect.stringMatching(/^error STET_ERR_\w+: .*1024/) });
  });
});

describe.skipIf(!isBuilt || !hasSmollm2 || !cpu.available)(`${builtTitle} with SmolLM2${withSmollm2}${onCpu}`, () => {
  it('answers a question with its chat template, as the float64 model does', { timeout: 120_000 }, async () => {
    const question = 'What is the capital of France?';
    // The format that suits the file: its own four bits, and eight for the head.
    for (const [options, weights] of [
      [[], '94'],
      [['--deterministic'], '94'],
      [['--format', 'bf16', '--deterministic'], '258'],
    ] as const) {
      const outcome = await stet(['run', question, '--model', smollm2, '--chat', '--stats', ...options]);
      expect(outcome).toMatchObject({ code: 0, stdout: 'The capital of France is Paris.' });
      expect(outcome.stderr).toMatch(/^tokens +37 prompt, 8 output, ended by stop$/m);
      expect(outcome.stderr).toMatch(
        new RegExp(`^memory +\\d+\\.\\d MiB at the peak \\(weights ${weights}\\.\\d MiB`, 'm'),
      );
    }
  });

  it('gives instructions to the model in its template, and finds it alone in a folder', {
    timeout: 120_000,
  }, async () => {
    const folder = join(root, 'alone');
    mkdirSync(folder);
    symlinkSync(smollm2, join(folder, 'model.gguf'));
    const words = ['--chat', '--max-tokens', '8', '--context', '256', '--deterministic', '--stats'];
    const outcome = await stet(['run', 'Hello', '--model', folder, '--system', 'Answer in French.', ...words]);
    expect(outcome).toMatchObject({ code: 0, stderr: expect.stringMatching(/^model +model on cpu/m) });
    expect(outcome.stdout.length).toBeGreaterThan(0);
    const plain = await stet(['run', 'Hello', '--model', folder, ...words]);
    expect(/hash +(\w+)/.exec(plain.stderr)![1]).not.toBe(/hash +(\w+)/.exec(outcome.stderr)![1]);
  });
});
