import { isStetError } from '@stet/backend';
import { hubCacheFolder } from '../hub/cache.js';
import { HubClient } from '../hub/hub-client.js';
import { pullModel } from '../hub/pull.js';
import { requireRepoSpec } from '../hub/repo-spec.js';
import { onInterrupt } from '../interrupt.js';
import { pullProgress } from '../pull-progress.js';
import { EXIT_INTERRUPTED } from '../report-error.js';

export interface PullCommandOptions {
  readonly revision?: string;
  readonly cacheDir?: string;
  /** Name of the variable that has the token. */
  readonly tokenEnv: string;
}

/** `stet pull`: fetches a model into the cache that Python shares; its path is the one line on stdout. */
export async function pull(model: string, { revision, cacheDir, tokenEnv }: PullCommandOptions): Promise<void> {
  const spec = requireRepoSpec(model);
  const { env } = process;
  const interrupt = onInterrupt();
  const progress = pullProgress(process.stderr);
  try {
    const client = new HubClient({
      ...(env.HF_ENDPOINT && { endpoint: env.HF_ENDPOINT }),
      ...(env[tokenEnv] && { token: env[tokenEnv] }),
      signal: interrupt.signal,
    });
    const cacheFolder = cacheDir ?? hubCacheFolder(env);
    const pulled = await pullModel(client, spec, { ...(revision && { revision }), cacheFolder, progress });
    progress.end();
    console.log(pulled.path);
  } catch (error) {
    progress.end();
    if (!interrupt.signal.aborted || !isStetError(error) || error.code !== 'STET_ERR_ABORTED') throw error;
    console.error('stopped; the same command goes on from here');
    process.exitCode = EXIT_INTERRUPTED;
  } finally {
    interrupt.dispose();
  }
}
