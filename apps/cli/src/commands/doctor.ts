import { type BackendReport, type DoctorReport, examine } from '../doctor-report.js';
import type { ModelChoice } from '../open-engine.js';
import { EXIT_FAILED } from '../report-error.js';

/** `stet doctor`: exit code 1 when the model cannot be opened or no backend is ready. */
export async function doctor(options: ModelChoice & { readonly json?: boolean }): Promise<void> {
  const report = await examine(options);
  console.log(options.json ? JSON.stringify(report) : describe(report).join('\n'));
  const isReady = report.model.status === 'ready' && report.backends.some(({ status }) => status === 'ready');
  if (!isReady) process.exitCode = EXIT_FAILED;
}

function describe({ node, platform, cpu, memoryBytes, numerics, model, backends }: DoctorReport): string[] {
  return [
    `node      ${node}, ${platform}`,
    `cpu       ${cpu.model}, ${cpu.cores} cores`,
    `memory    ${gibibytes(memoryBytes)} GiB`,
    `numerics  ${numerics}`,
    model.status === 'ready'
      ? `model     ${model.name}: ${model.architecture}, context ${model.contextLength}, vocabulary ${model.vocabSize}, digest ${model.digest.slice(0, 16)}…`
      : `model     ${model.name}: ${model.reason}`,
    ...backends.flatMap((backend) => ['', ...describeBackend(backend)]),
  ];
}

function describeBackend(backend: BackendReport): string[] {
  const lines = [`backend ${backend.name}: ${backend.status}`, ...backend.features.map((feature) => `  ${feature}`)];
  if (backend.status === 'unavailable') return [...lines, `  why: ${backend.reason}`];
  const { vectors, values, failures } = backend.selfTest;
  const result = failures.length === 0 ? 'passed' : `${failures.length} FAILED`;
  lines.push(`  self-test: ${result} (${vectors} golden vectors, ${values} values, bit for bit)`);
  if (backend.status === 'refused') return [...lines, `  why: ${backend.reason}`];
  const { weightBytes, kvBytes, scratchBytes } = backend.memory;
  return [
    ...lines,
    `  device: ${backend.device}`,
    `  guarantee: ${backend.guarantee}`,
    `  fingerprint: ${backend.fingerprint}`,
    `  answer hash: ${backend.answerHash.slice(0, 16)}…`,
    `  memory: ${mebibytes(weightBytes)} MiB weights, ${mebibytes(kvBytes)} MiB K/V in this test, ${mebibytes(scratchBytes)} MiB scratch`,
  ];
}

function mebibytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(1);
}

function gibibytes(bytes: number): string {
  return (bytes / 2 ** 30).toFixed(1);
}
