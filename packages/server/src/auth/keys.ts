import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { StetError } from '@stet/backend';
import * as z from 'zod';
import type { KeyLimits, Principal } from './principal.js';

/** One API key: as it is, or as its SHA-256 in hexadecimal digits, from which nobody learns it. */
export interface ApiKey {
  /** Shown in logs and metrics. */
  readonly name: string;
  readonly key?: string;
  readonly sha256?: string;
  readonly limits?: KeyLimits;
  /**
   * Keys of one scope share the prefix cache, so that the time to a first token can tell them of each other's prompts; by
   * default a key shares it with nobody.
   */
  readonly cacheScope?: string;
}

export const keyBounds = {
  maxKeys: 10_000,
  maxNameLength: 64,
  /** Shorter keys could be found by trying. */
  minKeyLength: 24,
  maxKeyLength: 512,
} as const;

const NEW_KEY_BYTES = 32;

const name = z
  .string()
  .max(keyBounds.maxNameLength)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, 'expected letters, digits, ".", "_" and "-"');

/** What a bearer token may hold, RFC 6750. */
const plainKey = z
  .string()
  .min(keyBounds.minKeyLength)
  .max(keyBounds.maxKeyLength)
  .regex(/^[A-Za-z0-9\-._~+/]+=*$/, 'expected the characters of a bearer token');
const sha256 = z.string().regex(/^[0-9a-fA-F]{64}$/, 'expected 64 hexadecimal digits');

const bound = z.exactOptional(z.int().min(1).max(1_000_000_000));
const limits = z.strictObject({ maxSockets: bound, maxStreams: bound, requestsPerMinute: bound });

const apiKeySchema: z.ZodType<ApiKey> = z
  .strictObject({
    name,
    key: z.exactOptional(plainKey),
    sha256: z.exactOptional(sha256),
    limits: z.exactOptional(limits),
    cacheScope: z.exactOptional(name),
  })
  .refine((entry) => (entry.key === undefined) !== (entry.sha256 === undefined), 'expected either key or sha256');

export const apiKeysSchema = z.array(apiKeySchema).min(1).max(keyBounds.maxKeys);

/** A file of keys: `{ "keys": [{ "name", "sha256" | "key", "limits"?, "cacheScope"? }] }`. */
export const keyFileSchema = z.strictObject({ keys: apiKeysSchema });

/** The keys of a file's text. Throws `STET_ERR_BAD_CONFIG`, which names the field and never what stands in it. */
export function parseKeyFile(text: string): readonly ApiKey[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The parser's own message quotes the text.
    throw new StetError('STET_ERR_BAD_CONFIG', 'the keys are not JSON');
  }
  const parsed = keyFileSchema.safeParse(value);
  if (!parsed.success) throw badKeys(parsed.error.issues[0]!);
  return parsed.data.keys;
}

/** A key that nobody has: 256 bits of randomness, and the hash that a file of keys holds. */
export function newApiKey(): { readonly key: string; readonly sha256: string } {
  const key = `stet-${randomBytes(NEW_KEY_BYTES).toString('base64url')}`;
  return { key, sha256: digestOf(key).toString('hex') };
}

class KeyPrincipal implements Principal {
  constructor(
    readonly name: string,
    readonly digest: Buffer,
    public limits: KeyLimits,
    public cacheScope: string,
  ) {}
}

/** The keys of a server and whose they are. */
export class KeyRing {
  #principals: readonly KeyPrincipal[] = [];

  constructor(keys: readonly ApiKey[]) {
    this.replace(keys);
  }

  /** Whose key this is. The time that it takes tells nothing about any key: every one is compared, by its hash. */
  find(key: string): Principal | undefined {
    const digest = digestOf(key);
    let found: KeyPrincipal | undefined;
    for (const principal of this.#principals) {
      if (timingSafeEqual(principal.digest, digest)) found = principal;
    }
    return found;
  }

  has(principal: Principal): boolean {
    return this.#principals.some((known) => known === principal);
  }

  /**
   * Takes other keys and returns the principals that are no more. Who keeps name and key stays who they are, with the new
   * limits. Throws `STET_ERR_BAD_CONFIG`, and changes nothing, if the keys are not in order.
   */
  replace(keys: readonly ApiKey[]): readonly Principal[] {
    const next = principalsOf(keys);
    const kept = next.map((principal) => {
      const known = this.#principals.find((old) => old.name === principal.name && old.digest.equals(principal.digest));
      if (known === undefined) return principal;
      known.limits = principal.limits;
      known.cacheScope = principal.cacheScope;
      return known;
    });
    const revoked = this.#principals.filter((principal) => !kept.includes(principal));
    this.#principals = kept;
    return revoked;
  }
}

function principalsOf(keys: readonly ApiKey[]): KeyPrincipal[] {
  const parsed = apiKeysSchema.safeParse(keys);
  if (!parsed.success) throw badKeys({ ...parsed.error.issues[0]!, path: ['keys', ...parsed.error.issues[0]!.path] });
  const names = new Set<string>();
  const digests = new Set<string>();
  return parsed.data.map(({ name, key, sha256, limits, cacheScope }) => {
    const digest = key === undefined ? Buffer.from(sha256!, 'hex') : digestOf(key);
    if (names.has(name)) throw new StetError('STET_ERR_BAD_CONFIG', `two keys are named "${name}"`);
    if (digests.has(digest.toString('hex')))
      throw new StetError('STET_ERR_BAD_CONFIG', `the key of "${name}" is that of another name`);
    names.add(name);
    digests.add(digest.toString('hex'));
    // No name of a scope has a space, so that none is that of a key which did not ask to share.
    return new KeyPrincipal(name, digest, limits ?? {}, cacheScope ?? `key ${name}`);
  });
}

/** What zod says of a string, a number or an unknown field can quote it; this tells where, and what is expected. */
function badKeys(issue: z.core.$ZodIssue): StetError {
  const where = z.core.toDotPath(issue.path) || 'the file';
  return new StetError('STET_ERR_BAD_CONFIG', `${where}: ${expectation(issue)}`);
}

function expectation(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `expected ${issue.expected}`;
    case 'too_small':
      return `expected at least ${issue.minimum}${issue.origin === 'string' ? ' characters' : ''}`;
    case 'too_big':
      return `expected at most ${issue.maximum}${issue.origin === 'string' ? ' characters' : ''}`;
    case 'unrecognized_keys':
      return 'has a field that is not known';
    case 'invalid_format':
    case 'custom':
      return issue.message;
    default:
      return 'is not valid';
  }
}

function digestOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
