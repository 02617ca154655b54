/** Where the server writes what happens; a `pino` logger fits. Neither prompts nor output are ever logged. */
export interface Logger {
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
  error(fields: Readonly<Record<string, unknown>>, message: string): void;
}

export const silentLogger: Logger = { info: ignore, warn: ignore, error: ignore };

/** A logger whose every line has `common` too. */
export function withFields(logger: Logger, common: Readonly<Record<string, unknown>>): Logger {
  return {
    info: (fields, message) => logger.info({ ...common, ...fields }, message),
    warn: (fields, message) => logger.warn({ ...common, ...fields }, message),
    error: (fields, message) => logger.error({ ...common, ...fields }, message),
  };
}

function ignore(): void {}
