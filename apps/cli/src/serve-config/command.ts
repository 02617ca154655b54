import { Command, InvalidArgumentError, Option } from 'commander';
import { configJsonSchema, readConfigFile } from './config-file.js';
import type { OptionValue, ServeOption } from './option.js';
import { serveOptions } from './options.js';
import { isProblem, parseValue } from './parse-value.js';
import { type ServeConfig, serveConfig } from './serve-config.js';
import { printSettings, resolveSettings, type Setting } from './settings.js';

/** What runs once it is known how. */
export type RunServer = (config: ServeConfig, settings: readonly Setting[]) => Promise<void>;

/** The whole of `stet serve`: its flags, and what they, the environment and a config file come to. */
export function serveCommand(run: RunServer): Command {
  const command = new Command('stet serve').description(
    'serve the model over HTTP and WebSocket (docs/PROTOCOL.md) until stopped. ' +
      'A flag counts before its variable, that before the config file',
  );
  command
    .addOption(new Option('--config <file>', 'options in JSON (STET_CONFIG)'))
    .addOption(new Option('--print-config', 'print the value of every option and where it came from'))
    .addOption(new Option('--print-config-schema', 'print the JSON Schema of a config file'));
  for (const option of serveOptions) for (const flag of flagsOf(option)) command.addOption(flag);
  return command.action(async (flags: Readonly<Record<string, unknown>>) => {
    if (flags.printConfigSchema) {
      console.log(JSON.stringify(configJsonSchema(), null, 2));
      return;
    }
    const settings = await settingsOf(command, flags, process.env);
    const config = serveConfig(settings);
    if (flags.printConfig) console.log(printSettings(settings, process.env.STET_API_KEY || undefined));
    else await run(config, settings);
  });
}

async function settingsOf(
  command: Command,
  flags: Readonly<Record<string, unknown>>,
  env: NodeJS.ProcessEnv,
): Promise<Setting[]> {
  const given = new Map<string, OptionValue>();
  for (const option of serveOptions) {
    const name = attributeOf(option);
    if (command.getOptionValueSource(name) === 'cli') given.set(option.path, flags[name] as OptionValue);
  }
  const file = (flags.config as string | undefined) ?? (env.STET_CONFIG || undefined);
  return resolveSettings({ flags: given, env, file: file === undefined ? new Map() : await readConfigFile(file) });
}

/** Without commander's defaults: what was not given may still come from elsewhere. */
function flagsOf(option: ServeOption): Option[] {
  const { flag, group } = option;
  const help = `${option.help}${defaultText(option)}`;
  switch (option.kind) {
    case 'boolean':
      return [
        new Option(`--${flag}`, help).helpGroup(`${group}:`),
        new Option(`--no-${flag}`, `turn off --${flag}`).helpGroup(`${group}:`),
      ];
    case 'list':
      return [new Option(`--${flag} <${option.metavar}...>`, help).helpGroup(`${group}:`)];
    case 'choice':
      return [new Option(`--${flag} <name>`, help).choices([...option.choices]).helpGroup(`${group}:`)];
    case 'integer':
    case 'text': {
      const metavar = option.kind === 'text' ? option.metavar : 'n';
      return [
        new Option(`--${flag} <${metavar}>`, help).argParser((text) => flagValue(option, text)).helpGroup(`${group}:`),
      ];
    }
  }
}

function flagValue(option: ServeOption, text: string): OptionValue {
  const value = parseValue(option, text);
  if (isProblem(value)) throw new InvalidArgumentError(value.problem);
  return value;
}

function defaultText({ default: value }: ServeOption): string {
  return value === undefined ? '' : ` (default: ${String(value)})`;
}

/** As commander names it. */
function attributeOf({ flag }: ServeOption): string {
  return flag.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
