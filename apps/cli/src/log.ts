import { isStetError } from '@stet/backend';
import { type DestinationStream, destination, type Logger, pino, stdTimeFunctions } from 'pino';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';
export type LogFormat = 'json' | 'pretty';

/** Fields that would hold a secret or what somebody wrote, should anybody ever log them. `key` is the name of one. */
const secretFields = [
  'apiKey',
  'authorization',
  'headers',
  'messages',
  'prompt',
  'text',
  'ticket',
  'tokens',
  'url.href',
];

/** A log on stderr: one line for each event. */
export function createLog(level: LogLevel, format: LogFormat, out: DestinationStream = destination(2)): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      redact: { paths: secretFields.flatMap((field) => [field, `*.${field}`]), censor: '(hidden)' },
    },
    format === 'json' ? out : { write: (line: string) => out.write(prettyLine(line)) },
  );
}

/** An error without whatever else hangs on it, which might be a request. */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack, cause } = error;
  return {
    name,
    message,
    ...(isStetError(error) && { code: error.code }),
    ...(stack !== undefined && { stack }),
    ...(cause !== undefined && { cause: describeError(cause) }),
  };
}

interface LogLine {
  readonly time: string;
  readonly level: string;
  readonly msg: string;
  readonly err?: { readonly message: string; readonly stack?: string };
  readonly [field: string]: unknown;
}

/** `12:34:56.789 warn  slow reader socket=… streams=2`; a stack follows on lines of its own. */
export function prettyLine(json: string): string {
  const { time, level, msg, err, ...fields } = JSON.parse(json) as LogLine;
  const texts = Object.entries(fields).map(([name, value]) => `${name}=${fieldText(value)}`);
  const failure = err === undefined ? [] : [err.stack ?? err.message];
  const [clock, ...rest] = [time.slice(11, 23), level.padEnd(5), msg, ...texts];
  return `${[[clock, ...rest].join(' '), ...failure].join('\n')}\n`;
}

function fieldText(value: unknown): string {
  return typeof value === 'string' && /^[\w.:/+@()-]+$/.test(value) ? value : JSON.stringify(value);
}
