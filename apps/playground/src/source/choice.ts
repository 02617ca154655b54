import { StetError } from '@stet/backend';
import { backendNames, type EngineChoice, policyNames } from './messages.js';

/** Who is to answer: an engine in this page, or a server by its address. */
export type SourceChoice =
  | ({ readonly kind: 'browser' } & EngineChoice)
  /** `address` is as {@link serverBase} gives it. */
  | { readonly kind: 'server'; readonly address: string };

/** What the page's address says; where it names nobody, the page decides. */
export type AskedChoice = SourceChoice | { readonly kind: 'server' } | undefined;

const SERVER = 'server';
/** In the order of the page's list. */
export const sourceNames = [SERVER, ...backendNames] as const;
export type SourceName = (typeof sourceNames)[number];

export const defaultPolicy = 'auto';

/** Throws `STET_ERR_UNSUPPORTED` for a name that is not known, and for an address that is none. */
export function choiceFromAddress(search: string): AskedChoice {
  const parameters = new URLSearchParams(search);
  const named = parameters.get('backend');
  if (named === null) return undefined;
  const name = oneOf('backend', sourceNames, named);
  if (name !== SERVER)
    return {
      kind: 'browser',
      backend: name,
      policy: oneOf('policy', policyNames, parameters.get('policy') ?? defaultPolicy),
    };
  const address = parameters.get('server');
  return address === null ? { kind: SERVER } : { kind: SERVER, address: serverBase(address) };
}

/** The page's address with the choice in it, so that it can be sent to others. Keys are no part of it. */
export function addressWithChoice(href: string, choice: SourceChoice): URL {
  const url = new URL(href);
  const { searchParams } = url;
  for (const name of ['policy', 'server']) searchParams.delete(name);
  searchParams.set('backend', choice.kind === SERVER ? SERVER : choice.backend);
  if (choice.kind === SERVER) searchParams.set('server', choice.address);
  else searchParams.set('policy', choice.policy);
  return url;
}

/**
 * Where the paths of a server begin, `http://host:port/`: of what a user writes, which may be without a scheme, `ws:`, or
 * the whole address of the stream. Throws `STET_ERR_UNSUPPORTED` for what is no address.
 */
export function serverBase(text: string): string {
  const trimmed = text.trim();
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(trimmed) ? trimmed : `http://${trimmed}`;
  const url = URL.canParse(whole) ? new URL(whole.replace(/^ws/i, 'http')) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new StetError(
      'STET_ERR_UNSUPPORTED',
      `${JSON.stringify(text)} is no address of a server, such as http://127.0.0.1:8642`,
    );
  url.search = '';
  url.hash = '';
  url.pathname = url.pathname.replace(/\/v1\/stream\/?$/, '/').replace(/\/?$/, '/');
  return url.href;
}

function oneOf<T extends string>(what: string, names: readonly T[], value: string): T {
  const name = names.find((one) => one === value);
  if (name !== undefined) return name;
  const list = [names.slice(0, -1).join(', '), ...names.slice(-1)].join(' or ');
  throw new StetError('STET_ERR_UNSUPPORTED', `there is no ${what} ${JSON.stringify(value)}: choose ${list}`);
}
