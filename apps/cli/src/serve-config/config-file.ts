import { readFile } from 'node:fs/promises';
import { assertNever, StetError } from '@stet/backend';
import { z } from 'zod';
import type { OptionValue, ServeOption } from './option.js';
import { serveOptions } from './options.js';

/** What a config file may hold: nothing but the options, each where its path says. */
export const configSchema = schemaOf(serveOptions);

/** For editors that check a config file. */
export function configJsonSchema(): object {
  return { title: 'Options of `stet serve`', ...z.toJSONSchema(configSchema, { io: 'input' }) };
}

/** The values that a file sets, by their paths. Rejects with `STET_ERR_BAD_CONFIG`, which names file and field. */
export async function readConfigFile(file: string): Promise<ReadonlyMap<string, OptionValue>> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    const reason = cause instanceof Error && 'code' in cause ? cause.code : cause;
    throw new StetError('STET_ERR_BAD_CONFIG', `cannot read the config ${file}: ${reason}`, { cause });
  }
  return parseConfig(text, file);
}

export function parseConfig(text: string, file: string): ReadonlyMap<string, OptionValue> {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    throw new StetError('STET_ERR_BAD_CONFIG', `${file}: the config is not JSON`);
  }
  const checked = configSchema.safeParse(content);
  if (!checked.success) throw new StetError('STET_ERR_BAD_CONFIG', `${file}: ${problemOf(checked.error)}`);
  const values = new Map<string, OptionValue>();
  for (const { path } of serveOptions) {
    const value = valueAt(checked.data, path.split('.'));
    if (value !== undefined) values.set(path, value as OptionValue);
  }
  return values;
}

function schemaOf(options: readonly ServeOption[]): z.ZodType<object> {
  const top: Record<string, z.ZodType> = { $schema: z.string().optional() };
  const groups = new Map<string, Record<string, z.ZodType>>();
  for (const option of options) {
    const [first, second] = option.path.split('.') as [string, string?];
    const schema = valueSchema(option).describe(option.help).optional();
    if (second === undefined) top[first] = schema;
    else {
      const group = groups.get(first) ?? {};
      groups.set(first, group);
      group[second] = schema;
    }
  }
  for (const [name, group] of groups) top[name] = z.strictObject(group).optional();
  return z.strictObject(top);
}

function valueSchema(option: ServeOption): z.ZodType {
  switch (option.kind) {
    case 'integer':
      return z.int().min(option.min).max(option.max);
    case 'choice':
      return z.enum(option.choices as [string, ...string[]]);
    case 'boolean':
      return z.boolean();
    case 'text':
      return z.string().min(1);
    case 'list':
      return z.array(z.string().min(1)).min(1);
    default:
      return assertNever(option);
  }
}

/** The first thing that is wrong, with its place. */
function problemOf({ issues }: z.ZodError): string {
  const issue = issues[0]!;
  const place = issue.path.join('.');
  if (issue.code === 'unrecognized_keys') {
    const prefix = place === '' ? '' : `${place}.`;
    return `there is no option ${issue.keys.map((key) => `"${prefix}${key}"`).join(', ')}`;
  }
  return place === '' ? issue.message : `${place}: ${issue.message}`;
}

function valueAt(content: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, name) =>
      typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>)[name] : undefined,
    content,
  );
}
