import { isStetError } from '@stet/backend';
import type { CommanderError } from 'commander';

/** Exit codes: something failed, the command line is wrong, stopped by ctrl-C. */
export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;
export const EXIT_INTERRUPTED = 130;

/** One line that says what happened and one that says what to do. Stack traces only with STET_DEBUG. */
export function reportError(error: unknown): void {
  process.exitCode = EXIT_FAILED;
  if (process.env.STET_DEBUG) console.error(error);
  if (!isStetError(error)) {
    const message = error instanceof Error ? error.message : String(error);
    console.error(`error UNEXPECTED: ${firstLine(message)}`);
    console.error('hint: this is a bug; set STET_DEBUG=1 to see where it happened.');
    return;
  }
  console.error(`error ${error.code}: ${firstLine(error.message)}`);
  console.error(`hint: ${error.hint}`);
  if (error.code === 'STET_ERR_BACKEND_UNAVAILABLE')
    console.error('hint: `--backend reference` runs anywhere, gives the same deterministic answers, and is slow.');
}

/** Help and version come as errors too, with exit code 0. */
export function reportUsage(error: CommanderError): void {
  process.exitCode = error.exitCode === 0 ? 0 : EXIT_USAGE;
  if (process.env.STET_DEBUG) console.error(error);
}

function firstLine(message: string): string {
  return message.split('\n', 1)[0] ?? '';
}
