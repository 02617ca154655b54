import { assertNever, type BackendInfo, type CanonicalShape, NUMERICS_ID, StetError } from '@stet/backend';
import { fingerprint, type LoadedModel } from '@stet/model';
import { type Drafter, SAMPLER_VERSION, type VerifyPolicy } from '@stet/scheduler';
import type { EngineInfo } from './api.js';

const GUARANTEES = { portable: 'portable', 'fixed-shape': 'same-build', none: 'seeded' } as const;

/** What an engine says of itself on a backend. Throws `STET_ERR_UNSUPPORTED` where the backend leaves its numerics or shape out. */
export function engineInfo(
  model: LoadedModel,
  info: BackendInfo,
  policy: VerifyPolicy,
  drafter: Drafter | undefined,
): EngineInfo {
  return {
    model: model.name,
    backend: info.name,
    device: info.device,
    fingerprint: fingerprintOf(model, info),
    contextLength: info.contextLength,
    vocabSize: info.vocabSize,
    chatTemplate: model.chatTemplate ? 'present' : 'none',
    deterministic: info.canonical,
    guarantee: GUARANTEES[info.canonical],
    numerics: info.numerics ?? 'none',
    policy: policy.name,
    ...(drafter && { drafter: drafter.name }),
    memory: info.memory,
  };
}

/** The fingerprint that a model has on every backend of portable numerics. */
export function portableFingerprint(model: Pick<LoadedModel, 'digest' | 'plan'>): string {
  return fingerprint({ ...modelParts(model), numericsId: NUMERICS_ID });
}

/**
 * Throws `STET_ERR_UNSUPPORTED` unless `made` can take the place of `lost` in the middle of requests: their fingerprint,
 * the blocks that are given out and how tokens are verified must stay what they were.
 */
export function checkSuccessor(model: LoadedModel, lost: BackendInfo, made: BackendInfo): void {
  const parts = (info: BackendInfo) => ({
    fingerprint: fingerprintOf(model, info),
    numerics: info.numerics,
    fast: info.fast,
    vocabSize: info.vocabSize,
    contextLength: info.contextLength,
    blockSize: info.blockSize,
    blockCount: info.blockCount,
    maxRows: info.maxRows,
  });
  const [before, after] = [parts(lost), parts(made)];
  for (const name of Object.keys(before) as (keyof typeof before)[]) {
    if (before[name] === after[name]) continue;
    throw new StetError('STET_ERR_UNSUPPORTED', `its ${name} is ${after[name]}, was ${before[name]}`);
  }
}

function modelParts({ digest, plan }: Pick<LoadedModel, 'digest' | 'plan'>) {
  return { digest, plan, samplerVersion: SAMPLER_VERSION };
}

/** Portable numerics depend on nothing but the model; without them the backend, its device and its shape matter too. */
function fingerprintOf(model: LoadedModel, info: BackendInfo): string {
  const parts = modelParts(model);
  const place = { backend: info.name, device: info.device };
  switch (info.canonical) {
    case 'portable':
      if (info.numerics === null)
        throw new StetError(
          'STET_ERR_UNSUPPORTED',
          `the backend ${info.name} names no numerics for its canonical schedule`,
        );
      return fingerprint({ ...parts, numericsId: info.numerics });
    case 'fixed-shape': {
      const { sequenceCount, windowTokens } = shapeOf(info);
      return fingerprint({
        ...parts,
        numericsId: 'fixed-shape',
        extra: { ...place, shape: `${sequenceCount}x${windowTokens}` },
      });
    }
    case 'none':
      return fingerprint({ ...parts, numericsId: 'none', extra: place });
    default:
      return assertNever(info.canonical);
  }
}

function shapeOf(info: BackendInfo): CanonicalShape {
  if (info.canonicalShape) return info.canonicalShape;
  throw new StetError('STET_ERR_UNSUPPORTED', `the backend ${info.name} has a fixed shape and does not say which`);
}
