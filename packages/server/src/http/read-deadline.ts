import type { ServerResponse } from 'node:http';

/**
 * Waits for what `begin` listens for, `drain` or `finish`. A client that leaves what was written unread for
 * `slowReaderMs` loses its connection. Resolves then as well, and when the connection closes: look at
 * `response.destroyed`.
 */
export function withReadDeadline(
  response: ServerResponse,
  slowReaderMs: number,
  begin: (resolve: () => void) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const deadline = setTimeout(() => response.destroy(), slowReaderMs);
    const settle = () => {
      clearTimeout(deadline);
      response.off('close', settle).off('drain', settle).off('finish', settle);
      resolve();
    };
    response.once('close', settle);
    begin(settle);
  });
}
