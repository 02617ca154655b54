import { StetError, type StetErrorCode } from '@stet/backend';
import { throwIfAborted } from './abort.js';
import { causeMessage } from './quote.js';
import type { FileSource } from './source.js';

/** What is wrong with a small text file, and how to say so. */
export interface TextFileRule {
  readonly code: StetErrorCode;
  /** Larger files are refused before they are read. */
  readonly maxBytes: number;
}

/** A whole small file as text; refuses one over its limit before reading it, and bytes that are not UTF-8. */
export async function readText(
  source: FileSource,
  name: string,
  rule: TextFileRule,
  signal?: AbortSignal,
): Promise<string> {
  throwIfAborted(signal);
  const size = await source.size(name);
  if (size > rule.maxBytes) {
    throw new StetError(rule.code, `${name} has ${size} bytes, at most ${rule.maxBytes} are allowed`);
  }
  const bytes = await source.read(name, 0, size);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new StetError(rule.code, `${name} is not UTF-8 text`, { cause });
  }
}

/** A whole small JSON file. */
export async function readJson(
  source: FileSource,
  name: string,
  rule: TextFileRule,
  signal?: AbortSignal,
): Promise<unknown> {
  return parseJson(await readText(source, name, rule, signal), name, rule.code);
}

export function parseJson(text: string, name: string, code: StetErrorCode): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new StetError(code, `${name} is not JSON: ${causeMessage(cause)}`, { cause });
  }
}
