import { StetError } from '@stet/backend';
import type { OptionValue, ServeOption } from './option.js';
import { serveOptions } from './options.js';
import { isProblem, parseValue } from './parse-value.js';

export type SettingSource = 'flag' | 'environment' | 'file' | 'default';

/** The effective value of an option; undefined where the default depends on something else. */
export interface Setting {
  readonly option: ServeOption;
  readonly value: OptionValue | undefined;
  readonly from: SettingSource;
}

/** What each place says of each option, by its path. */
export interface SettingSources {
  readonly flags: ReadonlyMap<string, OptionValue>;
  readonly env: NodeJS.ProcessEnv;
  readonly file: ReadonlyMap<string, OptionValue>;
}

/**
 * Flag before environment before file before default. A variable that is empty counts as not set. Throws
 * `STET_ERR_BAD_CONFIG` for a variable that cannot be, also where a flag stands before it.
 */
export function resolveSettings({ flags, env, file }: SettingSources): Setting[] {
  return serveOptions.map((option) => {
    const fromEnvironment = environmentValue(option, env);
    const fromFlag = flags.get(option.path);
    if (fromFlag !== undefined) return { option, value: fromFlag, from: 'flag' };
    if (fromEnvironment !== undefined) return { option, value: fromEnvironment, from: 'environment' };
    const fromFile = file.get(option.path);
    if (fromFile !== undefined) return { option, value: fromFile, from: 'file' };
    return { option, value: option.default, from: 'default' };
  });
}

/** One line for each option: its path, its value and where that came from, in JSON. */
export function printSettings(settings: readonly Setting[], apiKey: string | undefined): string {
  const entries = settings.map(({ option, value, from }) => [option.path, { value: value ?? null, from }] as const);
  const secret = [
    'STET_API_KEY',
    { value: apiKey ? '(hidden)' : null, from: apiKey ? 'environment' : 'default' },
  ] as const;
  const lines = [...entries, secret].map(([path, entry]) => `  ${JSON.stringify(path)}: ${JSON.stringify(entry)}`);
  return `{\n${lines.join(',\n')}\n}`;
}

/** What is not its default, for the log. */
export function chosenSettings(settings: readonly Setting[]): Record<string, string> {
  const chosen = settings.filter(({ from }) => from !== 'default');
  return Object.fromEntries(chosen.map(({ option, value, from }) => [option.path, `${String(value)} (${from})`]));
}

function environmentValue(option: ServeOption, env: NodeJS.ProcessEnv): OptionValue | undefined {
  const text = env[option.env];
  if (text === undefined || text === '') return undefined;
  const value = parseValue(option, text);
  if (isProblem(value))
    throw new StetError('STET_ERR_BAD_CONFIG', `${option.env} is ${JSON.stringify(text)}: ${value.problem}`);
  return value;
}
