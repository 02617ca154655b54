import type { LoadProgress } from '@stet/engine';

export interface LoadingLine {
  onProgress(progress: LoadProgress): void;
  /** Takes the line away. */
  end(): void;
}

/** Loads that are shorter than this show nothing. */
const QUIET_MS = 1000;
const INTERVAL_MS = 100;

const PHASES = { files: 'reading files', weights: 'loading weights' } as const;

/** On a terminal, a line that says how far loading is, once it takes long; elsewhere nothing. */
export function loadingLine(stream: NodeJS.WriteStream, clock: () => number = () => performance.now()): LoadingLine {
  if (!stream.isTTY) return { onProgress: () => {}, end: () => {} };
  let nextMs = clock() + QUIET_MS;
  let isShown = false;
  return {
    onProgress: ({ phase, done, total }) => {
      if (clock() < nextMs) return;
      nextMs = clock() + INTERVAL_MS;
      isShown = true;
      stream.write(`\r\x1b[K${PHASES[phase]}: ${Math.floor((100 * done) / Math.max(1, total))} %`);
    },
    end: () => {
      if (isShown) stream.write('\r\x1b[K');
      isShown = false;
    },
  };
}
