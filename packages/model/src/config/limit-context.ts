import { StetError } from '@stet/backend';
import type { DecoderConfig } from './decoder-config.js';

/**
 * The config with fewer positions; their rotation stays as it is. Throws `STET_ERR_BAD_REQUEST` for more than the model
 * was made for.
 */
export function limitContext(config: DecoderConfig, contextLength: number | undefined): DecoderConfig {
  if (contextLength === undefined) return config;
  if (!Number.isInteger(contextLength) || contextLength < 1 || contextLength > config.contextLength) {
    throw new StetError(
      'STET_ERR_BAD_REQUEST',
      `contextLength is ${contextLength}, the model was made for 1 to ${config.contextLength} positions`,
    );
  }
  return { ...config, contextLength };
}
