import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkPlan, weightBytes, weightFormats } from '@stet/backend';
import { type FileSource, loadModel, memoryNeeded, memorySource } from '@stet/model';
import { loadModelFolder, openFolder } from '@stet/model/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadSmallModel as load } from './support/load-small-model.js';
import {
  jsonBytes,
  safetensors,
  smallConfig,
  smallModelFiles,
  smallTensor,
  smallTensors,
} from './support/small-model.js';

const small = () => smallTensors().map(([name, shape]) => smallTensor(name, shape));

/** A source that counts how often it is closed. */
function counted(files = smallModelFiles()): { source: FileSource; closed: () => number } {
  let closed = 0;
  const source = memorySource(files);
  return { source: { ...source, close: async () => void closed++ }, closed: () => closed };
}

describe('a loaded model', () => {
  it('says everything an engine needs', async () => {
    const model = await load();
    expect(model).toMatchObject({
      name: 'small',
      architecture: 'llama',
      bosId: 256,
      eosIds: [10, 257],
      contextLength: 64,
      generationDefaults: { mode: 'sample', temperature: 0.6, topP: 0.9 },
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    checkPlan(model.plan);
    expect(model.tokenizer!.encode('hi', { addSpecialTokens: true })).toEqual([256, 0x68, 0x69]);
    expect(model.chatTemplate!.render({ messages: [{ role: 'user', content: 'hi' }] })).toBe('<|begin|>user: hi\n');
    for (const spec of model.plan.weights) {
      expect((await model.weights.read(spec)).kind).toBe(spec.kind === 'vector' ? 'vector' : 'bf16');
    }
  });

  it('says what it takes on disk and in memory', async () => {
    const files = smallModelFiles();
    const { storage, parameterCount, plan } = await load();
    expect(storage.files).toEqual(Object.keys(files).sort());
    expect(storage.bytes).toBe(Object.values(files).reduce((sum, { length }) => sum + length, 0));
    const values = smallTensors().reduce((sum, [, shape]) => sum + shape.reduce((a, b) => a * b), 0);
    expect(parameterCount).toBe(values);
    expect(storage.tensorTypes).toEqual([{ type: 'BF16', tensorCount: smallTensors().length, bytes: 2 * values }]);
    const vectors = 5 * 16;
    // Two layers of one head of 8, padded to 32: two planes of int8 and an exponent, for keys and for values.
    const kvBytesPerPosition = 2 * 2 * (2 * 32 + 1);
    expect(memoryNeeded(plan, 'bf16')).toEqual({
      weightBytes: 2 * (values - vectors) + 4 * vectors,
      kvBytesPerPosition,
    });
    let q8Bytes = 0;
    for (const spec of (await load({}, { format: 'q8' })).plan.weights) {
      q8Bytes += spec.kind === 'vector' ? 4 * spec.size : spec.rows * Math.ceil(spec.columns / 32) * (32 + 4);
    }
    expect(memoryNeeded(plan, 'q8')).toEqual({ weightBytes: q8Bytes, kvBytesPerPosition });
  });

  it('lists the types of its tensors, those that take most bytes first', async () => {
    const [first, ...others] = small();
    const wide = new Uint8Array(new Float32Array(first!.bytes.length / 2).buffer);
    const tensors = [...others, { ...first!, dtype: 'F32', bytes: wide }];
    const { storage } = await load({ 'model.safetensors': safetensors(tensors) });
    expect(storage.tensorTypes).toEqual([
      { type: 'F32', tensorCount: 1, bytes: wide.length },
      { type: 'BF16', tensorCount: others.length, bytes: others.reduce((sum, { bytes }) => sum + bytes.length, 0) },
    ]);
  });

  it('uses the memory that the arrays of its weights take', async () => {
    for (const format of weightFormats) {
      const { plan, weights } = await load({}, { format });
      let bytes = 0;
      for (const spec of plan.weights) bytes += weightBytes(await weights.read(spec));
      expect(memoryNeeded(plan, format).weightBytes).toBe(bytes);
    }
  });

  it('uses fewer positions where that is asked for, rotated as before', async () => {
    const scaled = {
      ...smallConfig(),
      rope_parameters: { rope_type: 'yarn', rope_theta: 10000, factor: 2 },
    };
    const change = { 'config.json': jsonBytes(scaled) };
    const [whole, short] = [await load(change), await load(change, { contextLength: 20 })];
    expect([whole.contextLength, short.contextLength]).toEqual([64, 20]);
    expect(short.plan).toEqual({ ...whole.plan, contextLength: 20 });
    expect(short.digest).toBe(whole.digest);
    for (const contextLength of [0, 65, 1.5, Number.NaN]) {
      await expect(load(change, { contextLength })).rejects.toMatchObject({
        code: 'STET_ERR_BAD_REQUEST',
        message: `contextLength is ${contextLength}, the model was made for 1 to 64 positions`,
      });
    }
  });

  it('tells how far its files are read', async () => {
    const told: [number, number][] = [];
    const { storage } = await load({}, { onProgress: (...args: [number, number]) => told.push(args) });
    expect(told).toHaveLength(storage.files.length);
    expect(told.at(-1)).toEqual([storage.bytes, storage.bytes]);
    expect(told.map(([done]) => done)).toEqual(told.map(([done]) => done).sort((a, b) => a - b));
    expect(new Set(told.map(([, total]) => total))).toEqual(new Set([storage.bytes]));
  });

  it('of Phi-3 takes its weights from the rows of fused tensors', async () => {
    const config = { ...smallConfig(), architectures: ['Phi3ForCausalLM'], model_type: 'phi3' };
    const parts = new Map(small().map((tensor) => [tensor.name, tensor]));
    const fuse = (layer: number, names: string[], fused: string) => {
      const found = names.map((name) => parts.get(`model.layers.${layer}.${name}.weight`)!);
      for (const { name } of found) parts.delete(name);
      const bytes = Uint8Array.from(found.flatMap((part) => [...part.bytes]));
      const shape = [found.reduce((rows, part) => rows + part.shape[0]!, 0), found[0]!.shape[1]!];
      const name = `model.layers.${layer}.${fused}.weight`;
      parts.set(name, { name, dtype: 'BF16', shape, bytes });
    };
    for (const layer of [0, 1]) {
      fuse(layer, ['self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj'], 'self_attn.qkv_proj');
      fuse(layer, ['mlp.gate_proj', 'mlp.up_proj'], 'mlp.gate_up_proj');
    }
    const fusedFile = safetensors([...parts.values()]);
    const [phi3, llama] = [
      await load({ 'config.json': jsonBytes(config), 'model.safetensors': fusedFile }),
      await load(),
    ];
    expect(phi3.plan).toEqual({ ...llama.plan, architecture: 'phi3' });
    for (const spec of llama.plan.weights) {
      expect(await phi3.weights.read(spec), spec.name).toEqual(await llama.weights.read(spec));
    }
    await expect(load({ 'config.json': jsonBytes(config) })).rejects.toMatchObject({
      code: 'STET_ERR_MISSING_TENSOR',
      message: expect.stringContaining('model.layers.0.self_attn.qkv_proj.weight'),
    });
  });

  it('has the format that is asked for in all its matrices', async () => {
    const { plan, weights } = await load({}, { format: 'q8', name: 'tiny' });
    expect(new Set(plan.weights.map((spec) => (spec.kind === 'matrix' ? spec.format : spec.kind)))).toEqual(
      new Set(['q8', 'vector']),
    );
    expect((await weights.read(plan.weights[0]!)).kind).toBe('q8');
  });

  it('reads the embedding once where the head is tied to it', async () => {
    const { plan } = await load();
    const names = plan.weights.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names).not.toContain('lm_head.weight');
    expect(plan.ops.at(-1)).toMatchObject({ kind: 'logits', weight: 0 });
  });

  it('takes its own head where it is not tied', async () => {
    const config = jsonBytes({ ...smallConfig(), tie_word_embeddings: false });
    const head = smallTensor('lm_head.weight', [259, 16]);
    const { plan } = await load({ 'config.json': config, 'model.safetensors': safetensors([...small(), head]) });
    expect(plan.weights.at(-1)!.name).toBe('lm_head.weight');
    await expect(load({ 'config.json': config })).rejects.toMatchObject({
      code: 'STET_ERR_MISSING_TENSOR',
      message: expect.stringContaining('lm_head.weight'),
    });
  });

  it('has biases where its config says so', async () => {
    const config = { ...smallConfig(), attention_bias: true, mlp_bias: true };
    const biases = small()
      .filter(({ name }) => name.includes('_proj'))
      .map(({ name, shape }) => smallTensor(name.replace('weight', 'bias'), [shape[0]!]));
    const { plan } = await load({
      'config.json': jsonBytes(config),
      'model.safetensors': safetensors([...small(), ...biases]),
    });
    expect(plan.ops.filter((op) => op.kind === 'linear' && op.bias !== undefined)).toHaveLength(14);
  });

  it('refuses tensors that its config has no use for, but old frequencies and a second head', async () => {
    const idle = [
      smallTensor('model.layers.0.self_attn.rotary_emb.inv_freq', [4]),
      smallTensor('lm_head.weight', [259, 16]),
    ];
    await load({ 'model.safetensors': safetensors([...small(), ...idle]) });
    const norm = smallTensor('model.layers.0.self_attn.q_norm.weight', [8]);
    await expect(load({ 'model.safetensors': safetensors([...small(), norm]) })).rejects.toMatchObject({
      code: 'STET_ERR_BAD_TENSOR',
      message: expect.stringContaining('no use for: "model.layers.0.self_attn.q_norm.weight"'),
    });
  });

  it('is used by token ids alone only where that is asked for', async () => {
    const files = { 'tokenizer.json': undefined };
    await expect(load(files)).rejects.toMatchObject({
      code: 'STET_ERR_BAD_TOKENIZER',
      message: expect.stringContaining("tokenizer: 'none'"),
    });
    const model = await load(files, { tokenizer: 'none' });
    expect([model.tokenizer, model.chatTemplate]).toEqual([undefined, undefined]);
  });

  it('prefers chat_template.jinja to the template of tokenizer_config.json', async () => {
    const { chatTemplate } = await load({ 'chat_template.jinja': new TextEncoder().encode('from the file') });
    expect(chatTemplate!.render({ messages: [] })).toBe('from the file');
  });

  it.each<[string, Record<string, Uint8Array | undefined>, string]>([
    ['no config.json', { 'config.json': undefined }, 'STET_ERR_MODEL_NOT_FOUND'],
    ['no weights', { 'model.safetensors': undefined }, 'STET_ERR_MODEL_NOT_FOUND'],
    ['a config that is no JSON', { 'config.json': new Uint8Array([1]) }, 'STET_ERR_BAD_CONFIG'],
    [
      'an eos past the vocabulary',
      { 'generation_config.json': jsonBytes({ eos_token_id: [1, 999] }) },
      'STET_ERR_BAD_CONFIG',
    ],
    ['a temperature as text', { 'generation_config.json': jsonBytes({ temperature: 'hot' }) }, 'STET_ERR_BAD_CONFIG'],
    [
      'a tensor of another shape',
      { 'config.json': jsonBytes({ ...smallConfig(), vocab_size: 260 }) },
      'STET_ERR_BAD_TENSOR',
    ],
    [
      'a layer too few',
      { 'config.json': jsonBytes({ ...smallConfig(), num_hidden_layers: 1 }) },
      'STET_ERR_BAD_TENSOR',
    ],
    [
      'a layer too many',
      { 'config.json': jsonBytes({ ...smallConfig(), num_hidden_layers: 3 }) },
      'STET_ERR_MISSING_TENSOR',
    ],
    ['a tokenizer that is no JSON', { 'tokenizer.json': new Uint8Array([1]) }, 'STET_ERR_BAD_TOKENIZER'],
    ['a tokenizer_config that is a list', { 'tokenizer_config.json': jsonBytes([]) }, 'STET_ERR_BAD_TOKENIZER'],
    [
      'add_bos_token without a bos token',
      {
        'config.json': jsonBytes({ ...smallConfig(), bos_token_id: null }),
        'tokenizer_config.json': jsonBytes({ add_bos_token: true }),
      },
      'STET_ERR_BAD_TOKENIZER',
    ],
    [
      'a chat template that is no text',
      { 'chat_template.jinja': new Uint8Array([0xff]) },
      'STET_ERR_BAD_CHAT_TEMPLATE',
    ],
    [
      'a config that is too large',
      { 'config.json': new Uint8Array(4 * 2 ** 20 + 1).fill(0x20) },
      'STET_ERR_BAD_CONFIG',
    ],
  ])('is refused with %s, and its source is closed', async (_what, change, code) => {
    const files = Object.entries({ ...smallModelFiles(), ...change }).filter(
      (entry): entry is [string, Uint8Array] => entry[1] !== undefined,
    );
    const { source, closed } = counted(Object.fromEntries(files));
    await expect(loadModel(source)).rejects.toMatchObject({ name: 'StetError', code });
    expect(closed()).toBe(1);
  });

  it('can be aborted at every read, and its source is closed', async () => {
    const { source: counting } = counted();
    let reads = 0;
    const countRead: FileSource['read'] = (...args) => {
      reads++;
      return counting.read(...args);
    };
    await loadModel({ ...counting, read: countRead });
    expect(reads).toBeGreaterThan(5);
    for (let at = 0; at < reads; at++) {
      const controller = new AbortController();
      const { source, closed } = counted();
      let read = 0;
      const aborting: FileSource = {
        ...source,
        read: (...args) => {
          if (read++ === at) controller.abort();
          return source.read(...args);
        },
      };
      const loading = loadModel(aborting, { signal: controller.signal });
      if (at === reads - 1) await loading;
      else await expect(loading, `aborted at read ${at}`).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
      expect(closed()).toBe(at === reads - 1 ? 0 : 1);
    }
  });
});

describe('a folder', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stet-model-'));
    for (const [name, bytes] of Object.entries(smallModelFiles())) await writeFile(join(folder, name), bytes);
  });
  afterAll(() => rm(folder, { recursive: true }));

  const openFiles = async (): Promise<number> => {
    const { promises } = await import('node:fs');
    const targets = await Promise.all(
      (await readdir('/proc/self/fd')).map((fd) => promises.readlink(`/proc/self/fd/${fd}`).catch(() => '')),
    );
    return targets.filter((target) => target.startsWith(folder)).length;
  };

  it('gives the model that memory gives', async () => {
    const model = await loadModelFolder(folder, { name: 'small' });
    const other = await load();
    expect({ digest: model.digest, plan: model.plan }).toEqual({ digest: other.digest, plan: other.plan });
    for (const spec of model.plan.weights)
      expect(await model.weights.read(spec)).toEqual(await other.weights.read(spec));
    await model.close();
  });

  it('lists files and links, and no folders', async () => {
    await symlink(join(folder, 'config.json'), join(folder, 'link.json'));
    const source = await openFolder(folder);
    expect((await source.list()).sort()).toEqual([...Object.keys(smallModelFiles()), 'link.json'].sort());
    expect(await source.read('link.json', 0, 5)).toEqual(
      Uint8Array.from((await readFile(join(folder, 'config.json'))).subarray(0, 5)),
    );
    await source.close();
    await rm(join(folder, 'link.json'));
  });

  it.runIf(process.platform === 'linux')('keeps no file open after close or a failure', async () => {
    const model = await loadModelFolder(folder);
    expect(await openFiles()).toBeGreaterThan(0);
    await model.close();
    await model.close();
    expect(await openFiles()).toBe(0);
    await writeFile(join(folder, 'generation_config.json'), '{"eos_token_id": 1e9}');
    await expect(loadModelFolder(folder)).rejects.toMatchObject({ code: 'STET_ERR_BAD_CONFIG' });
    expect(await openFiles()).toBe(0);
  });

  it('that is not there, or a file, is refused', async () => {
    for (const path of [join(folder, 'none'), join(folder, 'config.json')]) {
      await expect(loadModelFolder(path)).rejects.toMatchObject({
        code: 'STET_ERR_MODEL_NOT_FOUND',
        message: expect.stringContaining(path),
      });
    }
  });

  it('gives no file outside itself', async () => {
    const source = await openFolder(folder);
    for (const name of ['../secret', '/etc/passwd', '..', '.', '']) {
      await expect(async () => source.read(name, 0, 1)).rejects.toThrow(/not a plain file name/);
    }
    await expect(source.size('none.json')).rejects.toMatchObject({ code: 'STET_ERR_MODEL_NOT_FOUND' });
    await source.close();
  });
});
