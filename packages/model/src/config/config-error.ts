import { StetError } from '@stet/backend';
import type { z } from 'zod';

/** Parses with a schema; the error names the file and the first fields that are wrong. Throws `STET_ERR_BAD_CONFIG`. */
export function parseConfig<T>(schema: z.ZodType<T>, value: unknown, file: string): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues.slice(0, 3).map((issue) => `${issue.path.join('.') || 'it'}: ${issue.message}`);
  throw new StetError('STET_ERR_BAD_CONFIG', `${file}: ${issues.join('; ')}`);
}

export function badConfig(message: string): never {
  throw new StetError('STET_ERR_BAD_CONFIG', `config.json: ${message}`);
}
