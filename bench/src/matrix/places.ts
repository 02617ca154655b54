import { assertNever, type BackendFactory, composeBackends, StetError } from '@stet/backend';
import { createCpuBackend, type IsaName } from '@stet/backend-cpu';
import { createWebGpuBackend, WebGpu } from '@stet/backend-webgpu';
import { loadModelPath } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { allowSoftwareGpu } from '../software-gpu.js';
import type { Closable, StudyContext } from '../study/context.js';
import type { MatrixBackend } from './backend-names.js';
import { ChromiumPage } from './chromium-page.js';
import { type Answers, answerWork, type Work } from './work.js';

/** A backend that answers, wherever it is. */
export interface Place extends Closable {
  /** Rejects with a `StetError` of the backend, or of one that does not exist here. */
  answer(work: Work): Promise<Answers>;
}

/** Parameters of a model, up to which it is tried on backends so slow. */
const REFERENCE_PARAMETERS = 200e6;
const SOFTWARE_GPU_PARAMETERS = 30e6;

/** Without zeroing workgroup memory, which no kernel relies on and which costs a GPU that is a program most of its time. Chromium has it too. */
const DAWN = ['enable-dawn-features=disable_workgroup_init'];

/**
 * Opened once and kept for the scenario. No backend tests itself before: the matrix is to show what differs. Rejects with
 * `STET_ERR_BACKEND_UNAVAILABLE` where there is none, with `STET_ERR_UNSUPPORTED` for a model that would take it too long.
 */
export function openPlace(backend: MatrixBackend, context: StudyContext): Promise<Place> {
  switch (backend) {
    case 'reference':
      return context.keep(backend, async () => openReference(context));
    case 'CPU scalar':
      return context.keep(backend, async () => cpuPlace(context, 'scalar'));
    case 'CPU avx2':
      return context.keep(backend, async () => cpuPlace(context, 'avx2'));
    case 'CPU avx512':
      return context.keep(backend, async () => cpuPlace(context, 'avx512'));
    case 'CPU batch-shaped':
      return context.keep(backend, async () => batchShapedPlace(context));
    case 'WebGPU in Node':
      return context.keep(backend, () => openWebGpu(context, (create) => create));
    case 'WebGPU+CPU':
      return context.keep(backend, () => openComposed(context));
    case 'WebGPU in Chromium':
      return openInChromium(context, 'webgpu');
    case 'reference in Chromium':
      checkReference(context);
      return openInChromium(context, 'reference');
    default:
      return assertNever(backend);
  }
}

function openReference(context: StudyContext): Place {
  checkReference(context);
  return placeOf(context, () => createReferenceBackend);
}

function cpuPlace(context: StudyContext, isa: IsaName): Place {
  return placeOf(context, (threads) => createCpuBackend({ isa, threads, selfTest: false }));
}

function batchShapedPlace(context: StudyContext): Place {
  return placeOf(context, (threads) => createCpuBackend({ fast: 'batch-shaped', threads, selfTest: false }));
}

async function openComposed(context: StudyContext): Promise<Place> {
  const { threads } = context.study;
  const canonical = createCpuBackend({ threads, selfTest: false });
  return openWebGpu(context, (fast) => composeBackends({ fast, canonical }));
}

async function openWebGpu(context: StudyContext, compose: (create: BackendFactory) => BackendFactory): Promise<Place> {
  const device = await context.keep('WebGPU device', async () => {
    allowSoftwareGpu((line) => context.log(line));
    return WebGpu.open({ dawn: DAWN });
  });
  checkSoftwareGpu(context, device.description);
  return placeOf(context, () => compose(createWebGpuBackend({ device, selfTest: false })));
}

async function openInChromium(context: StudyContext, backend: 'webgpu' | 'reference'): Promise<Place> {
  const page = await context.keep('Chromium', () => ChromiumPage.open(context.study.model));
  if (backend === 'webgpu') checkSoftwareGpu(context, await page.describeGpu());
  return { answer: (work) => page.answer(backend, work), close: () => {} };
}

function placeOf({ study }: StudyContext, backendOf: (threads: number) => BackendFactory): Place {
  return {
    answer: (work) =>
      answerWork(work, {
        backend: backendOf(work.schedule.threads ?? study.threads),
        open: (format) => loadModelPath(study.model, { format }),
      }),
    close: () => {},
  };
}

function checkReference({ model }: StudyContext): void {
  if (model.parameterCount > REFERENCE_PARAMETERS) tooSlow('the reference, in TypeScript', model.parameterCount);
}

function checkSoftwareGpu({ model }: StudyContext, description: string): void {
  const isSoftware = /swiftshader|llvmpipe/i.test(description);
  if (isSoftware && model.parameterCount > SOFTWARE_GPU_PARAMETERS) {
    tooSlow(`${description}, a GPU that is a program,`, model.parameterCount);
  }
}

function tooSlow(what: string, parameterCount: number): never {
  const millions = Math.round(parameterCount / 1e6);
  throw new StetError('STET_ERR_UNSUPPORTED', `${what} would take too long with ${millions} million parameters`);
}
