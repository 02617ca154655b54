import type { GenerationDefaults } from '../config/generation-config.js';
import { shortestDecimal } from './config/model-keys.js';
import { badMetadata } from './gguf-error.js';
import type { GgufMetadata } from './metadata-value.js';

/** What the keys `general.sampling.…` recommend. Throws `STET_ERR_BAD_CONFIG`. */
export function samplingDefaults(file: string, metadata: GgufMetadata): GenerationDefaults {
  const read = (name: string, max: number): number | undefined => {
    const key = `general.sampling.${name}`;
    const value = metadata.get(key);
    if (value === undefined) return undefined;
    const number = typeof value === 'number' ? shortestDecimal(value) : Number.NaN;
    if (!(number >= 0 && number <= max)) badMetadata(file, `${key} is no number from 0 to ${max}`);
    return number;
  };
  const temperature = read('temp', 1e6);
  const topK = read('top_k', 2 ** 31);
  const topP = read('top_p', 1);
  const minP = read('min_p', 1);
  return {
    ...(temperature !== undefined && { temperature }),
    ...(topK !== undefined && { topK }),
    ...(topP !== undefined && { topP }),
    ...(minP !== undefined && { minP }),
  };
}
