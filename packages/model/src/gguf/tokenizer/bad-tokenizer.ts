import { StetError } from '@stet/backend';

/** The metadata of a GGUF file gives no tokenizer; `message` goes on from "the GGUF file". */
export function badTokenizer(message: string, cause?: unknown): never {
  throw new StetError('STET_ERR_BAD_TOKENIZER', `the GGUF file ${message}`, cause === undefined ? {} : { cause });
}
