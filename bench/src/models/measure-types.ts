import { readFileSync } from 'node:fs';
import { ggmlType } from '@stet/model';

export interface TypeRow {
  readonly 'tensor type': string;
  readonly 'values, equal bit for bit': string;
}

interface GoldenType {
  readonly type: string;
  readonly ggmlType: number;
  readonly bytesBase64: string;
  readonly valuesF32Base64: string;
}

/** Decodes recorded blocks of each tensor type of GGUF and compares their values with the recorded ones, bit for bit. */
export function measureTypes(file: string): { readonly reference: string; readonly rows: readonly TypeRow[] } {
  const golden = JSON.parse(readFileSync(file, 'utf8')) as { reference: string; types: GoldenType[] };
  return { reference: golden.reference, rows: golden.types.map(typeRow) };
}

function typeRow({ type, ggmlType: number, bytesBase64, valuesF32Base64 }: GoldenType): TypeRow {
  const bytes = Uint8Array.from(Buffer.from(bytesBase64, 'base64'));
  const wanted = new Uint32Array(Uint8Array.from(Buffer.from(valuesF32Base64, 'base64')).buffer);
  const found = ggmlType(number);
  if (!found || !('decode' in found) || !found.decode || found.name !== type)
    return { 'tensor type': type, 'values, equal bit for bit': 'NOT SUPPORTED' };
  const values = new Float32Array(wanted.length);
  found.decode(bytes, values);
  const got = new Uint32Array(values.buffer);
  const equal = wanted.reduce((count, bits, i) => count + (bits === got[i] ? 1 : 0), 0);
  return {
    'tensor type': type,
    'values, equal bit for bit': equal === wanted.length ? `all ${equal}` : `${equal} of ${wanted.length}`,
  };
}
