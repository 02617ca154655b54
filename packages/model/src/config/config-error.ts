import { StetError, type StetErrorCode } from '@stet/backend';
import type { z } from 'zod';
import { causeMessage } from '../files/quote.js';

/** Parses with a schema; the error names the file and the first fields that are wrong. Throws `code`. */
export function parseConfig<T>(
  schema: z.ZodType<T>,
  value: unknown,
  file: string,
  code: StetErrorCode = 'STET_ERR_BAD_CONFIG',
): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues.slice(0, 3).map(({ path, message }) => {
    const field = path.length > 0 ? causeMessage(path.map(String).join('.')) : 'it';
    return `${field}: ${causeMessage(message)}`;
  });
  throw new StetError(code, `${file}: ${issues.join('; ')}`);
}

export function badConfig(message: string): never {
  throw new StetError('STET_ERR_BAD_CONFIG', `config.json: ${message}`);
}
