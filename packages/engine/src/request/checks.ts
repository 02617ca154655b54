import { StetError } from '@stet/backend';

/** Turns one field of a request into its value. Throws `STET_ERR_BAD_REQUEST` that names the field. */
export type Check<Value> = (value: unknown, name: string) => Value;

export function badRequest(message: string): never {
  throw new StetError('STET_ERR_BAD_REQUEST', message);
}

export function integer(min: number, max: number): Check<number> {
  return (value, name) =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max
      ? value
      : badRequest(`${name} must be an integer in ${min}..${max}, not ${show(value)}`);
}

/** A finite number in min..max; with `above`, one greater than min. */
export function number(min: number, max: number, bound: 'from' | 'above' = 'from'): Check<number> {
  const inRange = (value: number) => (bound === 'from' ? value >= min : value > min) && value <= max;
  const range = bound === 'from' ? `in ${min}..${max}` : `above ${min} and at most ${max}`;
  return (value, name) =>
    typeof value === 'number' && inRange(value)
      ? value
      : badRequest(`${name} must be a number ${range}, not ${show(value)}`);
}

export const boolean: Check<boolean> = (value, name) =>
  typeof value === 'boolean' ? value : badRequest(`${name} must be true or false, not ${show(value)}`);

/** A well-formed string (no lone surrogates: they have no UTF-8) of limited length in UTF-16 units. */
export function string(minLength: number, maxLength: number): Check<string> {
  return (value, name) => {
    if (typeof value !== 'string') return badRequest(`${name} must be a string, not ${show(value)}`);
    if (value.length < minLength || value.length > maxLength)
      return badRequest(`${name} has ${value.length} characters, allowed are ${minLength} to ${maxLength}`);
    return /\p{Surrogate}/u.test(value) ? badRequest(`${name} has a lone surrogate`) : value;
  };
}

export function array<Value>(minLength: number, maxLength: number, item: Check<Value>): Check<Value[]> {
  return (value, name) => {
    if (!Array.isArray(value)) return badRequest(`${name} must be an array, not ${show(value)}`);
    if (value.length < minLength || value.length > maxLength)
      return badRequest(`${name} has ${value.length} entries, allowed are ${minLength} to ${maxLength}`);
    return Array.from(value, (entry: unknown, index) => item(entry, `${name}[${index}]`));
  };
}

export function plainObject(value: unknown, name: string): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : badRequest(`${name} must be an object, not ${show(value)}`);
}

/** A value as a message shows it: short, and never a whole prompt. */
export function show(value: unknown): string {
  if (typeof value === 'string') return value.length > 40 ? `a string of ${value.length} characters` : `"${value}"`;
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return String(value);
  return Array.isArray(value) ? 'an array' : `${typeof value === 'object' ? 'an object' : typeof value}`;
}
