import { readFile } from 'node:fs/promises';
import { isStetError, StetError } from '@stet/backend';
import { type ApiKey, parseKeyFile, type StetServer } from '@stet/server';

/** What the key in this variable is called in logs. */
const ENVIRONMENT_KEY_NAME = 'environment';

export interface KeySources {
  /** A file as `parseKeyFile` reads it. */
  readonly file?: string;
  /** One key, as it is. */
  readonly apiKey?: string;
}

/** The keys of a server, or undefined where none are configured. Throws `STET_ERR_BAD_CONFIG` without showing a key. */
export async function readServerKeys({ file, apiKey }: KeySources): Promise<readonly ApiKey[] | undefined> {
  if (file === undefined && apiKey === undefined) return undefined;
  return [...(file === undefined ? [] : await keysOfFile(file)), ...(apiKey === undefined ? [] : [keyOf(apiKey)])];
}

/**
 * Reads the keys again whenever the process gets a SIGHUP. If they are not in order the old ones stay, and `report` is
 * told. `dispose` gives the signal back.
 */
export function reloadKeysOnHangup(
  server: Pick<StetServer, 'replaceKeys'>,
  sources: KeySources,
  report: (line: string, level: 'info' | 'warn') => void,
): { dispose(): void } {
  const reload = async () => {
    try {
      const keys = (await readServerKeys(sources)) ?? [];
      server.replaceKeys(keys);
      report(`keys reloaded: ${keys.length}`, 'info');
    } catch (error) {
      report(`keys not reloaded, the old ones stay: ${isStetError(error) ? error.message : String(error)}`, 'warn');
    }
  };
  const onHangup = () => void reload();
  process.on('SIGHUP', onHangup);
  return { dispose: () => process.off('SIGHUP', onHangup) };
}

async function keysOfFile(file: string): Promise<readonly ApiKey[]> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    const reason = cause instanceof Error && 'code' in cause ? cause.code : cause;
    throw new StetError('STET_ERR_BAD_CONFIG', `cannot read the keys in ${file}: ${reason}`, { cause });
  }
  return named(file, () => parseKeyFile(text));
}

function keyOf(apiKey: string): ApiKey {
  const entry = { name: ENVIRONMENT_KEY_NAME, key: apiKey };
  return named('STET_API_KEY', () => parseKeyFile(JSON.stringify({ keys: [entry] })))[0]!;
}

/** Says in errors where the keys came from. */
function named<T>(source: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (!isStetError(error)) throw error;
    throw new StetError(error.code, `${source}: ${error.message}`);
  }
}
