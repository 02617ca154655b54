import { StetError } from '@stet/backend';
import { quote } from '../../files/quote.js';
import type { GgufMetadata } from '../metadata-value.js';
import type { GgufArchitecture } from './architecture.js';
import { llama } from './llama.js';
import { olmo2 } from './olmo2.js';
import { phi3 } from './phi3.js';
import { qwen2 } from './qwen2.js';
import { qwen3 } from './qwen3.js';
import { smollm3 } from './smollm3.js';

const architectures: Readonly<Record<string, GgufArchitecture>> = { llama, qwen2, qwen3, smollm3, phi3, olmo2 };

/** Values of `general.architecture` that are supported. */
export const ggufArchitectures: readonly string[] = Object.keys(architectures);

/** The architecture that a file names, and its name, before the metadata keys. Throws `STET_ERR_UNKNOWN_ARCHITECTURE`. */
export function findArchitecture(
  file: string,
  metadata: GgufMetadata,
): { readonly name: string; readonly architecture: GgufArchitecture } {
  const name = metadata.get('general.architecture');
  if (typeof name === 'string' && Object.hasOwn(architectures, name)) {
    return { name, architecture: architectures[name]! };
  }
  const found = name === undefined ? 'names no architecture' : `has the architecture ${quote(name)}`;
  throw new StetError(
    'STET_ERR_UNKNOWN_ARCHITECTURE',
    `${file} ${found}; supported are ${ggufArchitectures.join(', ')}`,
  );
}
