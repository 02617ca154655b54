import { type Batch, OUTPUT_ARGMAX, OUTPUT_LOGITS, type WeightSource } from '@stet/backend';
import { buildModel, conformanceModels, expectEqualBits, type ModelShape } from '@stet/backend/conformance';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { loadOn } from '../src/backend.js';
import { GPU_USAGE } from '../src/device/memory.js';
import { createWebGpuBackend, liveBytes, WebGpu } from '../src/index.js';
import { MAX_HEAD_SIZE, MAX_ROWS } from '../src/load/limits.js';
import { testGpu, withoutGpu } from './support/gpu.js';
import { sharedDevice } from './support/shared-device.js';

const [model] = conformanceModels();
const { plan } = model;
const load = { plan, weights: model.weights, blockSize: 16, blockCount: 20, maxRows: 64 };

const oneHead: ModelShape = {
  name: 'one head',
  seed: 3,
  vocabSize: 64,
  contextLength: 64,
  layerCount: 1,
  hiddenSize: 32,
  headCount: 1,
  kvHeadCount: 1,
  headSize: 32,
  feedForwardSize: 32,
  hasBiases: false,
  head: 'tied',
  attentionFormat: 'bf16',
  feedForwardFormat: 'bf16',
  headFormat: 'bf16',
};

/** A prompt of `rowCount` tokens in blocks from `firstBlock` on; every row has its output, kinds alternate by `period`. */
function promptBatch(rowCount: number, firstBlock: number, period = 1): Batch {
  const rows = Int32Array.from({ length: rowCount }, (_, row) => row);
  return {
    tokens: rows.map((row) => (row * 7) % plan.vocabSize),
    positions: rows,
    rowStarts: Int32Array.of(0, rowCount),
    blockStarts: Int32Array.of(0),
    blocks: Int32Array.from({ length: Math.ceil(rowCount / 16) }, (_, i) => firstBlock + i),
    outputRows: rows,
    outputKinds: Uint8Array.from(rows, (row) => (row % period === 0 ? OUTPUT_LOGITS : OUTPUT_ARGMAX)),
  };
}

const step = { fast: promptBatch(20, 1), canonical: promptBatch(20, 5) };

describe.skipIf(withoutGpu)('a WebGPU backend', { timeout: 600_000 }, () => {
  const gpu = sharedDevice();
  const create: ReturnType<typeof createWebGpuBackend> = (options) =>
    createWebGpuBackend({ device: gpu(), selfTest: false })(options);

  afterEach(() => {
    vi.restoreAllMocks();
    expect(liveBytes()).toBe(0);
  });

  it('makes neither buffers nor pipelines in steps after the first, nor pipelines in another load', async () => {
    const first = await create(load);
    const { weightBytes, kvBytes, scratchBytes } = first.info.memory;
    expect(liveBytes()).toBe(weightBytes + kvBytes + scratchBytes);
    await first.forward(step);
    const bytes = liveBytes();
    const buffers = vi.spyOn(gpu().device, 'createBuffer');
    const groups = vi.spyOn(gpu().device, 'createBindGroup');
    for (let i = 0; i < 5; i++) await first.forward(step);
    expect(liveBytes()).toBe(bytes);
    expect(buffers).not.toHaveBeenCalled();
    expect(groups).not.toHaveBeenCalled();
    const pipelines = vi.spyOn(gpu().device, 'createComputePipelineAsync');
    const second = await create(load);
    expect(pipelines).not.toHaveBeenCalled();
    await Promise.all([first.close(), second.close()]);
  });

  it('gives the same results however few outputs its buffer of logits holds', async () => {
    const whole = await create(load);
    const sliced = await loadOn(gpu(), load, () => {}, { logitsBytes: 5 * plan.vocabSize * 4 });
    const mixed = { canonical: promptBatch(23, 1, 3), fast: promptBatch(5, 9, 2) };
    const expected = await whole.forward(mixed);
    const got = await sliced.forward(mixed);
    for (const schedule of ['canonical', 'fast'] as const) {
      expect(got[schedule]!.argmax).toEqual(expected[schedule]!.argmax);
      expectEqualBits(got[schedule]!.logits, expected[schedule]!.logits, `${schedule} logits`);
      expectEqualBits(got[schedule]!.argmaxLogit, expected[schedule]!.argmaxLogit, `${schedule} logit of the arg-max`);
      expectEqualBits(got[schedule]!.runnerUpLogit, expected[schedule]!.runnerUpLogit, `${schedule} runner-up`);
    }
    await Promise.all([whole.close(), sliced.close()]);
  });

  it('reads block tables that stand far apart', async () => {
    const backend = await create(load);
    const near = step.canonical;
    const logits = (await backend.forward({ canonical: near })).canonical!.logits.slice();
    const blocks = new Int32Array(3000).fill(-1);
    blocks.set(near.blocks, 2000);
    const far = { ...near, blocks, blockStarts: Int32Array.of(2000) };
    const twoTables = {
      ...far,
      tokens: Int32Array.of(...near.tokens, 1),
      positions: Int32Array.of(...near.positions, 0),
      rowStarts: Int32Array.of(0, 20, 21),
      blockStarts: Int32Array.of(2000, 7),
      blocks: blocks.with(7, 12),
    };
    for (const canonical of [far, twoTables]) {
      const result = await backend.forward({ canonical });
      expectEqualBits(result.canonical!.logits, logits, 'logits of a table elsewhere');
    }
    await backend.close();
  });

  it('replaces the arrays of a result that its reader transferred away', async () => {
    const backend = await create(load);
    const { logits, argmax, argmaxLogit, runnerUpLogit } = (await backend.forward(step)).canonical!;
    const before = logits.slice();
    structuredClone(0, {
      transfer: [logits, argmax, argmaxLogit, runnerUpLogit].map(({ buffer }) => buffer as ArrayBuffer),
    });
    const again = (await backend.forward(step)).canonical!;
    expectEqualBits(again.logits, before, 'after a transfer');
    expect(again.argmax.length).toBe(20);
    await backend.close();
  });

  it('waits for a step that wants nothing', async () => {
    const backend = await create(load);
    const silent = { ...step.canonical, outputRows: new Int32Array(0), outputKinds: new Uint8Array(0) };
    const { canonical } = await backend.forward({ canonical: silent });
    expect(canonical).toMatchObject({ argmax: new Int32Array(0), logits: new Float32Array(0) });
    await backend.close();
  });

  it.each([1, 3])(
    'stops loading when the signal is aborted at weight %i, though the source never answers',
    async (stopAt) => {
      const controller = new AbortController();
      let reads = 0;
      const weights: WeightSource = {
        read(spec) {
          if (++reads < stopAt) return model.weights.read(spec);
          setTimeout(() => controller.abort(new Error('given up')), 5);
          return new Promise(() => {});
        },
      };
      const loading = create({ ...load, weights, signal: controller.signal });
      await expect(loading).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    },
  );

  it('refuses rows and heads that its kernels do not take', async () => {
    await expect(create({ ...load, maxRows: MAX_ROWS + 1 })).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: expect.stringContaining(String(MAX_ROWS)),
    });
    const wide = buildModel({ ...oneHead, headSize: MAX_HEAD_SIZE + 2 });
    await expect(create({ ...load, ...wide })).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: expect.stringContaining(String(MAX_HEAD_SIZE)),
    });
    const widest = await create({ ...load, ...buildModel({ ...oneHead, headSize: MAX_HEAD_SIZE }) });
    await expect(
      widest.forward({ canonical: { ...promptBatch(2, 1), tokens: Int32Array.of(1, 2) } }),
    ).resolves.toBeDefined();
    await widest.close();
  });

  it('names the limit of the device that a K/V pool is too large for', async () => {
    await expect(create({ ...load, blockCount: 2 ** 26 })).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: expect.stringMatching(/keys of layer 0 needs \d+ bytes, the device's max\w+ is \d+/),
    });
  });

  it('says that the device has no memory, when it loads and when it runs', async () => {
    const { device } = gpu();
    const pop = device.popErrorScope.bind(device);
    const noMemory = async () => {
      await pop();
      return { message: 'none left' } as GPUError;
    };
    vi.spyOn(device, 'popErrorScope').mockImplementationOnce(noMemory);
    await expect(create(load)).rejects.toMatchObject({
      code: 'STET_ERR_OUT_OF_MEMORY',
      message: expect.stringContaining('none left'),
    });
    expect(liveBytes()).toBe(0);
    const backend = await create(load);
    vi.spyOn(device, 'popErrorScope').mockImplementationOnce(noMemory);
    await expect(backend.forward(step)).rejects.toMatchObject({ code: 'STET_ERR_OUT_OF_MEMORY' });
    await expect(backend.forward(step)).resolves.toHaveProperty('canonical');
    await backend.close();
  });

  it('rejects a step that the device complains of, and goes on', async () => {
    const backend = await create(load);
    const { device } = gpu();
    const createCommandEncoder = device.createCommandEncoder.bind(device);
    vi.spyOn(device, 'createCommandEncoder').mockImplementationOnce((descriptor) => {
      const encoder = createCommandEncoder(descriptor);
      encoder.pushDebugGroup('never popped');
      return encoder;
    });
    await expect(backend.forward(step)).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_FAILED' });
    await expect(backend.forward(step)).resolves.toHaveProperty('canonical');
    await backend.close();
  });

  it('rejects the next step for an error that nobody waited for, and prints nothing', async () => {
    const backend = await create(load);
    const printed = vi.spyOn(console, 'error');
    gpu().device.createBuffer({ size: 2 ** 50, usage: GPU_USAGE.STORAGE });
    await expect(backend.forward(step)).rejects.toMatchObject({
      code: 'STET_ERR_BACKEND_FAILED',
      message: expect.stringContaining('the WebGPU device reports'),
    });
    await expect(backend.forward(step)).resolves.toHaveProperty('canonical');
    expect(printed).not.toHaveBeenCalled();
    await backend.close();
  });

  it('refuses steps after close, which waits for the step in flight', async () => {
    const backend = await create(load);
    const running = backend.forward(step);
    await expect(backend.forward(step)).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_BUSY' });
    const closed = Promise.all([backend.close(), backend.close()]);
    await expect(running).resolves.toHaveProperty('canonical.argmax.length', 20);
    await closed;
    await expect(backend.forward(step)).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_CLOSED' });
    expect(gpu().lostReason).toBeUndefined();
  });
});

describe.skipIf(withoutGpu)('a WebGPU backend with a device of its own', { timeout: 600_000 }, () => {
  afterEach(() => vi.restoreAllMocks());

  it('rejects the step in flight and later ones when the device is lost, and can be closed', async () => {
    const gpu = await WebGpu.open(testGpu);
    const open = vi.spyOn(WebGpu, 'open').mockResolvedValueOnce(gpu);
    const backend = await createWebGpuBackend({ selfTest: false })(load);
    expect(open).toHaveBeenCalledOnce();
    await backend.forward(step);
    const running = backend.forward(step);
    gpu.device.destroy();
    await expect(running).rejects.toMatchObject({ code: 'STET_ERR_DEVICE_LOST' });
    await expect(backend.forward(step)).rejects.toMatchObject({ code: 'STET_ERR_DEVICE_LOST' });
    await expect(loadOn(gpu, load)).rejects.toMatchObject({ code: 'STET_ERR_DEVICE_LOST' });
    await backend.close();
    await backend.close();
    expect(liveBytes()).toBe(0);
  });

  it('closes it when loading fails', async () => {
    const gpu = await WebGpu.open(testGpu);
    vi.spyOn(WebGpu, 'open').mockResolvedValueOnce(gpu);
    const weights: WeightSource = { read: () => Promise.reject(new Error('the disk is gone')) };
    const loading = createWebGpuBackend({ selfTest: false })({ ...load, weights });
    await expect(loading).rejects.toThrow('the disk is gone');
    await gpu.device.lost;
    expect(gpu.lostReason).toBeDefined();
    expect(liveBytes()).toBe(0);
  });
});

if (withoutGpu !== undefined) it.skip(`the WebGPU backend is not tested here (${withoutGpu})`, () => {});
