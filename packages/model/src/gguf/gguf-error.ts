import { StetError } from '@stet/backend';

/** The file breaks its format. */
export function badGguf(file: string, message: string): never {
  throw new StetError('STET_ERR_BAD_GGUF', `${file} ${message}`);
}

/** The file is sound, but its metadata describe what Stet does not compute. */
export function badMetadata(file: string, message: string): never {
  throw new StetError('STET_ERR_BAD_CONFIG', `${file}: ${message}`);
}
