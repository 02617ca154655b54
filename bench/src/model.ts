import { NUMERICS_ID } from '@stet/backend';
import { fingerprint, type LoadedModel } from '@stet/model';
import { loadModelFolder } from '@stet/model/node';
import { SAMPLER_VERSION } from '@stet/scheduler';
import { talesFolder } from '@stet/tales';

export async function openTales(): Promise<{ model: LoadedModel; fingerprint: string }> {
  const model = await loadModelFolder(talesFolder, { name: 'tales' });
  const { digest, plan } = model;
  return {
    model,
    fingerprint: fingerprint({ digest, plan, numericsId: NUMERICS_ID, samplerVersion: SAMPLER_VERSION }),
  };
}
