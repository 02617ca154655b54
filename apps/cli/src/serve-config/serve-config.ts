import { assert } from '@stet/backend';
import { defaultLimits, type EngineLimits, type KvOptions } from '@stet/engine';
import { defaultServerLimits, isLoopbackHost, type MetricsAccess, type ServerLimits } from '@stet/server';
import type { LogFormat, LogLevel } from '../log.js';
import type { EngineChoice } from '../open-engine.js';
import type { OptionValue } from './option.js';
import type { Setting } from './settings.js';

/** The settings of `stet serve` as the parts of the program take them. */
export interface ServeConfig {
  readonly host: string;
  readonly port: number;
  /** A file of keys. */
  readonly keys?: string;
  readonly allowedOrigins?: readonly string[];
  /** Whether the playground is served at `/`. */
  readonly playground: boolean;
  readonly choice: EngineChoice;
  readonly onDeviceLost: 'recreate' | 'fail';
  readonly kv: KvOptions;
  readonly prefixCache: 'on' | 'off';
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
  readonly metrics: MetricsAccess;
  readonly engineLimits: EngineLimits;
  readonly serverLimits: ServerLimits;
}

export function serveConfig(settings: readonly Setting[]): ServeConfig {
  const values = new Map(settings.map(({ option, value }) => [option.path, value]));
  // The options' kinds and choices are those of the types; that table is the one place that says both.
  const need = <Value extends OptionValue>(path: string): Value => {
    const value = values.get(path);
    assert(value !== undefined, `option ${path} has a default`);
    return value as Value;
  };
  const may = <Name extends string, Value extends OptionValue>(name: Name, path: string) => {
    const value = values.get(path);
    return (value === undefined ? {} : { [name]: value }) as { readonly [N in Name]?: Value };
  };
  const limits = <Limits extends object>(group: string, defaults: Limits) =>
    Object.fromEntries(Object.keys(defaults).map((name) => [name, need<number>(`${group}.${name}`)])) as Limits;
  const mebibytes = values.get('kv.memoryMiB') as number | undefined;
  return {
    host: need('host'),
    port: need('port'),
    ...may<'keys', string>('keys', 'keys'),
    ...may<'allowedOrigins', readonly string[]>('allowedOrigins', 'allowOrigin'),
    playground: (values.get('playground') as boolean | undefined) ?? isLoopbackHost(need('host')),
    choice: {
      model: need('model'),
      format: need('format'),
      ...may<'context', number>('context', 'context'),
      backend: need('backend'),
      ...may<'threads', number>('threads', 'threads'),
      ...may<'isa', NonNullable<EngineChoice['isa']>>('isa', 'isa'),
      packedCache: need('packedCache'),
      policy: need('policy'),
      ...may<'window', number>('window', 'window'),
      draft: need('draft'),
    },
    onDeviceLost: need('onDeviceLost'),
    kv: {
      blockSize: need('kv.blockSize'),
      ...may<'blockCount', number>('blockCount', 'kv.blocks'),
      ...(mebibytes !== undefined && { memoryBytes: mebibytes * 2 ** 20 }),
    },
    prefixCache: need('prefixCache'),
    logLevel: need('logLevel'),
    logFormat: need('logFormat'),
    metrics: need('metrics'),
    engineLimits: limits('engine', defaultLimits),
    serverLimits: limits('server', defaultServerLimits),
  };
}
