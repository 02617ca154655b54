import { StetError } from '../errors.js';
import type { Backend, BackendFactory, BackendInfo, BackendLoad } from '../port.js';
import { ComposedBackend } from './composed-backend.js';
import { KvLedger } from './kv-ledger.js';

export interface ComposeOptions {
  /** Runs fast batches; its canonical schedule is not used. */
  readonly fast: BackendFactory;
  /** Runs canonical batches; its fast schedule is not used. */
  readonly canonical: BackendFactory;
}

/**
 * A factory of backends that decode on one backend and verify on another, both batches of a step at the same time:
 *
 *     const backend = composeBackends({ fast: createWebGpuBackend(), canonical: createCpuBackend() });
 *
 * Each part loads the whole model, so the weight source is read twice, and keeps K/V of its own in blocks of equal ids.
 * Before a fast batch runs, the fast part is fed the rows it lacks: those that the canonical part ran, which it runs
 * again without outputs. A fast batch behind a long canonical prompt waits for that. The canonical part needs no feeding.
 *
 * Canonical bits, numerics and shape are those of the canonical part, so a portable fingerprint is too; what is `fast`
 * counts as `free`. The bits of fast rows are the fast part's. Beyond the port's rules a step is refused with
 * `STET_ERR_BAD_BATCH` where canonical rows would attend to K/V that the fast schedule wrote last.
 *
 * A load rejects with what a part rejects with, or with `STET_ERR_UNSUPPORTED` where the canonical part has no
 * canonical schedule or a part has other sizes than it was asked for; then nothing is left open. A step of which one
 * part fails rejects after both have ended; if both failed, with `STET_ERR_DEVICE_LOST` of either or else with the
 * canonical part's error.
 */
export function composeBackends({ fast: createFast, canonical: createCanonical }: ComposeOptions): BackendFactory {
  return async (load) => {
    const progress = progressOfBoth(load);
    const open: Backend[] = [];
    try {
      const canonical = await createCanonical({ ...load, ...progress.canonical });
      open.push(canonical);
      checkPart(canonical.info, load);
      if (canonical.info.canonical === 'none') {
        unsupported(`the backend ${canonical.info.name} has no canonical schedule that a composition could use`);
      }
      progress.report(0.5);
      const fast = await createFast({ ...load, ...progress.fast });
      open.push(fast);
      checkPart(fast.info, load);
      progress.report(1);
      const ledger = new KvLedger(load);
      return new ComposedBackend({ info: infoOf(fast.info, canonical.info, ledger.bytes), fast, canonical, ledger });
    } catch (error) {
      await Promise.allSettled(open.map((backend) => backend.close()));
      throw error;
    }
  };
}

/** Half of the weights are done when one part has them all; `onProgress` is called with whole numbers that grow. */
function progressOfBoth({ onProgress, plan }: BackendLoad) {
  if (!onProgress) return { canonical: {}, fast: {}, report: () => {} };
  const total = plan.weights.length;
  let reported = 0;
  const report = (share: number): void => {
    const done = Math.floor(share * total);
    if (done <= reported) return;
    reported = done;
    onProgress(done, total);
  };
  return {
    canonical: { onProgress: (done: number, of: number) => report(done / of / 2) },
    fast: { onProgress: (done: number, of: number) => report(0.5 + done / of / 2) },
    report,
  };
}

/** Both parts must be what was asked for, or a batch that the one takes the other might not. */
function checkPart(info: BackendInfo, { plan, blockSize, blockCount, maxRows }: BackendLoad): void {
  const { vocabSize, contextLength } = plan;
  for (const [name, asked] of Object.entries({ vocabSize, contextLength, blockSize, blockCount, maxRows })) {
    const has = info[name as 'maxRows'];
    if (has !== asked) unsupported(`the backend ${info.name} has ${name} ${has}, a composition needs ${asked}`);
  }
}

function infoOf(fast: BackendInfo, canonical: BackendInfo, ledgerBytes: number): BackendInfo {
  return {
    ...canonical,
    name: `${fast.name}+${canonical.name}`,
    device: `fast: ${fast.device}; canonical: ${canonical.device}`,
    fast: 'free',
    memory: {
      weightBytes: fast.memory.weightBytes + canonical.memory.weightBytes,
      kvBytes: fast.memory.kvBytes + canonical.memory.kvBytes,
      scratchBytes: fast.memory.scratchBytes + canonical.memory.scratchBytes + ledgerBytes,
    },
  };
}

function unsupported(message: string): never {
  throw new StetError('STET_ERR_UNSUPPORTED', message);
}
