import { arch, cpus, platform, release, totalmem } from 'node:os';
import { isStetError, NUMERICS_ID, type OpRunner, type WeightFormat, weightFormats } from '@stet/backend';
import { describeFailure, type SelfTestReport, selfTestModel, selfTestOps } from '@stet/backend/self-test';
import { collectAnswer, createEngine, type EngineInfo } from '@stet/engine';
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

export type BackendReport = { readonly name: 'cpu' | 'reference'; readonly features: readonly string[] } & (
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
    backends: [await examineCpu(choice), await examineReference(choice)],
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
  return examineBackend('cpu', features, cpuFormats, () => createCpuOpRunner({ isa: found.chosen }), choice);
}

async function examineReference(choice: ModelChoice): Promise<BackendReport> {
  const { createReferenceOpRunner } = await import('@stet/reference');
  const features = ['JavaScript, runs anywhere, slow'];
  return examineBackend('reference', features, weightFormats, createReferenceOpRunner, choice);
}

async function examineBackend(
  name: 'cpu' | 'reference',
  features: readonly string[],
  formats: readonly WeightFormat[],
  createRunner: () => OpRunner,
  choice: ModelChoice,
): Promise<BackendReport> {
  let selfTest: SelfTestSummary = { vectors: 0, values: 0, failures: [] };
  try {
    const backend = await chooseBackend({ backend: name });
    const runner = createRunner();
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
