import { quote } from '../../files/quote.js';
import { badMetadata } from '../gguf-error.js';
import type { GgufMetadata, GgufValue } from '../metadata-value.js';

/**
 * The metadata keys `{architecture}.…` of a file. It remembers which were asked for: a key that nobody asked for says
 * something about the model that we do not compute. All methods throw `STET_ERR_BAD_CONFIG` that names file and key.
 */
export class ModelKeys {
  readonly #file: string;
  readonly #prefix: string;
  readonly #metadata: GgufMetadata;
  readonly #asked = new Set<string>();

  constructor(file: string, architecture: string, metadata: GgufMetadata) {
    this.#file = file;
    this.#prefix = `${architecture}.`;
    this.#metadata = metadata;
  }

  /** A whole number from 1 to `max`; undefined where it is absent. */
  count(name: string, max: number): number | undefined {
    const value = this.#get(name);
    return value === undefined ? undefined : this.#checkCount(name, value, max);
  }

  requiredCount(name: string, max: number): number {
    return this.count(name, max) ?? this.bad(name, 'is missing');
  }

  /** A count that a file may give once, or for each layer; layers that differ are not supported. */
  sameCount(name: string, layerCount: number, max: number): number | undefined {
    const value = this.#get(name);
    if (typeof value !== 'object') return value === undefined ? undefined : this.#checkCount(name, value, max);
    if (value.length !== layerCount) this.bad(name, `has ${value.length} entries for ${layerCount} layers`);
    const counts = Array.from<unknown, number>(value as Iterable<unknown>, (entry) =>
      this.#checkCount(name, entry, max),
    );
    if (counts.some((count) => count !== counts[0]))
      this.bad(name, 'differs from layer to layer, which is not supported');
    return counts[0]!;
  }

  /**
   * A number from `min` to `max`. A 32-bit float is read as the shortest decimal that it stands for, because that is what
   * the model's authors wrote: 1e-5 and not 9.99999974e-6, as it comes from their config.json.
   */
  decimal(name: string, min: number, max: number): number | undefined {
    const value = this.#get(name);
    if (value === undefined) return undefined;
    const number = typeof value === 'number' || typeof value === 'bigint' ? shortestDecimal(Number(value)) : Number.NaN;
    if (!(number >= min && number <= max)) this.bad(name, `is ${show(value)}, expected a number from ${min} to ${max}`);
    return number;
  }

  text(name: string): string | undefined {
    const value = this.#get(name);
    if (value === undefined || typeof value === 'string') return value;
    return this.bad(name, `is ${show(value)}, expected a string`);
  }

  /** A key that may be there as long as it says what is computed anyway. */
  neutral(name: string, ...values: readonly GgufValue[]): void {
    const value = this.#get(name);
    const plain = typeof value === 'bigint' ? Number(value) : value;
    if (plain === undefined || values.includes(plain)) return;
    this.bad(name, `is ${show(plain)}, which is not supported`);
  }

  /** A key that changes nothing that is computed, whatever it says. */
  ignore(name: string): void {
    this.#asked.add(name);
  }

  /** Refuses the keys of the architecture that nobody asked for. */
  refuseOthers(): void {
    for (const key of this.#metadata.keys()) {
      if (!key.startsWith(this.#prefix) || this.#asked.has(key.slice(this.#prefix.length))) continue;
      this.bad(key.slice(this.#prefix.length), 'is not supported: it could change what the model computes');
    }
  }

  bad(name: string, message: string): never {
    badMetadata(this.#file, `${quote(this.#prefix + name).slice(1, -1)} ${message}`);
  }

  #get(name: string): GgufValue | undefined {
    this.#asked.add(name);
    return this.#metadata.get(this.#prefix + name);
  }

  #checkCount(name: string, value: unknown, max: number): number {
    const count = typeof value === 'bigint' ? Number(value) : value;
    if (typeof count === 'number' && Number.isInteger(count) && count >= 1 && count <= max) return count;
    return this.bad(name, `is ${show(value)}, expected a whole number from 1 to ${max}`);
  }
}

/** The decimal number of fewest digits that the f32 `value` is nearest to; numbers that are no f32 stay as they are. */
export function shortestDecimal(value: number): number {
  if (Math.fround(value) !== value || Number.isInteger(value)) return value;
  for (let digits = 1; digits < 9; digits++) {
    const decimal = Number(value.toPrecision(digits));
    if (Math.fround(decimal) === value) return decimal;
  }
  // Nine digits tell all f32 apart.
  return Number(value.toPrecision(9));
}

function show(value: unknown): string {
  if (typeof value === 'bigint') return String(value);
  return typeof value === 'object' ? 'an array' : quote(value);
}
