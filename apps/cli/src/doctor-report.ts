import { arch, cpus, platform, release, totalmem } from 'node:os';
import {
  type BackendFactory,
  isStetError,
  NUMERICS_ID,
  type OpRunner,
  type WeightFormat,
  weightFormats,
} from '@stet/backend';
import { describeFailure, type SelfTestReport, selfTestModel, selfTestOps } from '@stet/backend/self-test';
import type { WebGpu as WebGpuDevice } from '@stet/backend-webgpu';
import { collectAnswer, createEngine, type EngineInfo } from '@stet/engine';
import type { BackendName } from './backend-names.js';
import { chooseBackend, type ModelChoice, openModel } from './open-engine.js';

export interface DoctorReport {
  readonly node: string;
  readonly platform: string;
  readonly cpu: { readonly model: string; readonly cores: number };
  readonly memoryBytes: number;
  readonly numerics: string;
  readonly model: ModelReport;
  readonly backends: readonly BackendReport[];
}

export type ModelReport =
  | { readonly name: string; readonly status: 'unavailable'; readonly reason: string }
  | {
      readonly name: string;
      readonly status: 'ready';
      readonly architecture: string;
      readonly contextLength: number;
      readonly vocabSize: number;
      readonly digest: string;
    };

/** A backend of its own; a composed one is what its parts are. */
export type SingleBackendName = Exclude<BackendName, `${string}+${string}`>;

export type BackendReport = { readonly name: SingleBackendName; readonly features: readonly string[] } & (
  | { readonly status: 'unavailable'; readonly reason: string }
  | { readonly status: 'refused'; readonly reason: string; readonly selfTest: SelfTestSummary }
  | {
      readonly status: 'ready';
      readonly selfTest: SelfTestSummary;
      readonly device: string;
      readonly guarantee: EngineInfo['guarantee'];
      readonly fingerprint: string;
      readonly memory: EngineInfo['memory'];
      /** Hash of a short deterministic answer: the same on every backend of this fingerprint. */
      readonly answerHash: string;
    }
);

export interface SelfTestSummary {
  readonly vectors: number;
  readonly values: number;
  /** One line for each vector whose bits differ. */
  readonly failures: readonly string[];
}

/** Looks at the machine, tests every backend against the golden vectors, and runs the model on those that pass. */
export async function examine(choice: ModelChoice): Promise<DoctorReport> {
  const processors = cpus();
  return {
    node: process.version,
    platform: `${platform()} ${release()} ${arch()}`,
    cpu: { model: processors[0]?.model.trim() ?? 'unknown', cores: processors.length },
    memoryBytes: totalmem(),
    numerics: NUMERICS_ID,
    model: await examineModel(choice),
    backends: [await examineCpu(choice), await examineWebGpu(choice), await examineReference(choice)],
  };
}

async function examineModel(choice: ModelChoice): Promise<ModelReport> {
  try {
    const model = await openModel(choice);
    const { name, architecture, contextLength, plan, digest } = model;
    await model.close();
    return { name, status: 'ready', architecture, contextLength, vocabSize: plan.vocabSize, digest };
  } catch (error) {
    return { name: choice.model, status: 'unavailable', reason: reasonOf(error) };
  }
}

async function examineCpu(choice: ModelChoice): Promise<BackendReport> {
  const { cpuFeatures, cpuFormats, createCpuOpRunner } = await import('@stet/backend-cpu');
  const found = cpuFeatures();
  if (!found.available) return { name: 'cpu', features: [], status: 'unavailable', reason: found.reason };
  const features = found.isas.map(({ name, available, reason, features: extra }) =>
    available ? `${name}${extra && ` (${extra})`}${name === found.chosen ? ', used' : ''}` : `no ${name}: ${reason}`,
  );
  features.push(`${found.threads} threads`, `built by ${found.compiler}`);
  return examineBackend({
    ...{ name: 'cpu', features, choice, formats: cpuFormats },
    createRunner: () => createCpuOpRunner({ isa: found.chosen }),
    backend: await chooseBackend({ backend: 'cpu' }),
  });
}

/** Limits of a device that say which models it can hold, and that kernels depend on. */
const SHOWN_LIMITS = [
  ...(['maxBufferSize', 'maxStorageBufferBindingSize', 'maxStorageBuffersPerShaderStage'] as const),
  ...(['maxComputeWorkgroupStorageSize', 'maxComputeInvocationsPerWorkgroup'] as const),
];

async function examineWebGpu(choice: ModelChoice): Promise<BackendReport> {
  const name = 'webgpu';
  const { createWebGpuBackend, createWebGpuOpRunner, WebGpu } = await import('@stet/backend-webgpu');
  let gpu: WebGpuDevice;
  try {
    gpu = await WebGpu.open();
  } catch (error) {
    return { name, features: [], status: 'unavailable', reason: reasonOf(error) };
  }
  try {
    const { limits } = gpu.device;
    return await examineBackend({
      ...{ name, choice, formats: weightFormats },
      features: [`adapter ${gpu.words}`, ...SHOWN_LIMITS.map((limit) => `${limit} ${limits[limit]}`)],
      createRunner: () => createWebGpuOpRunner({ device: gpu }),
      // What a load would test is tested here.
      backend: createWebGpuBackend({ device: gpu, selfTest: false }),
    });
  } finally {
    gpu.close();
  }
}

async function examineReference(choice: ModelChoice): Promise<BackendReport> {
  const { createReferenceOpRunner } = await import('@stet/reference');
  return examineBackend({
    ...{ name: 'reference', choice, formats: weightFormats },
    features: ['JavaScript, runs anywhere, slow'],
    createRunner: createReferenceOpRunner,
    backend: await chooseBackend({ backend: 'reference' }),
  });
}

interface Examined {
  readonly name: SingleBackendName;
  readonly features: readonly string[];
  readonly formats: readonly WeightFormat[];
  readonly createRunner: () => OpRunner | Promise<OpRunner>;
  readonly backend: BackendFactory;
  readonly choice: ModelChoice;
}

async function examineBackend(examined: Examined): Promise<BackendReport> {
  const { name, features, formats, createRunner, backend, choice } = examined;
  let selfTest: SelfTestSummary = { vectors: 0, values: 0, failures: [] };
  try {
    const runner = await createRunner();
    const ops = await selfTestOps(runner, { formats }).finally(() => runner.close());
    selfTest = summaryOf(ops, await selfTestModel(backend, { formats, chunkings: ['chunks'] }));
    const [failure] = selfTest.failures;
    if (failure !== undefined) return { name, features, status: 'refused', reason: failure, selfTest };
    await using engine = await createEngine({ model: openModel(choice), backend, kv: { blockCount: 16 } });
    const { device, guarantee, fingerprint, memory } = engine.info;
    const { done } = await collectAnswer(
      engine.generate({ promptTokens: [0, 1, 2, 3], maxTokens: 4, deterministic: true, seed: 0, ignoreEos: true }),
    );
    return {
      ...{ name, features, status: 'ready', selfTest, device, fingerprint, memory },
      guarantee,
      answerHash: done.receipt?.outputHash ?? '',
    };
  } catch (error) {
    return { name, features, status: 'refused', reason: reasonOf(error), selfTest };
  }
}

function summaryOf(...reports: readonly SelfTestReport[]): SelfTestSummary {
  return {
    vectors: reports.reduce((sum, report) => sum + report.vectors.length, 0),
    values: reports.reduce((sum, report) => sum + report.valueCount, 0),
    failures: reports.flatMap((report) => report.failures.map(describeFailure)),
  };
}

function reasonOf(error: unknown): string {
  if (isStetError(error)) return `${error.code}: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}
