/** Where the server writes what happens; a `pino` logger fits. Neither prompts nor output are ever logged. */
export interface Logger {
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
  error(fields: Readonly<Record<string, unknown>>, message: string): void;
}

export const silentLogger: Logger = { info: ignore, warn: ignore, error: ignore };

function ignore(): void {}
