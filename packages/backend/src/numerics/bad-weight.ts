import { StetError } from '../errors.js';

/** Throws `STET_ERR_BAD_WEIGHTS`: an element of a tensor is outside of the domain. */
export function badWeight(name: string, index: number, what: string): never {
  throw new StetError('STET_ERR_BAD_WEIGHTS', `${name}: element ${index} ${what}`);
}
