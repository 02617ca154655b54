import { SingleBar } from 'cli-progress';
import type { PullProgress } from './hub/pull.js';
import { formatBytes } from './units.js';

/** A bar on a terminal, a line for each file elsewhere; both on `stream`, which is not the one with the result. */
export function pullProgress(stream: NodeJS.WriteStream): PullProgress & { end(): void } {
  return stream.isTTY ? barProgress(stream) : lineProgress(stream);
}

function barProgress(stream: NodeJS.WriteStream): PullProgress & { end(): void } {
  const bar = new SingleBar({
    stream,
    format: '{bar} {percentage}% {done} of {all}  {file}',
    hideCursor: true,
    barsize: 24,
    etaBuffer: 50,
  });
  let isStarted = false;
  return {
    begin: (_fileCount, totalBytes) => {
      isStarted = true;
      bar.start(totalBytes, 0, { done: formatBytes(0), all: formatBytes(totalBytes), file: '' });
    },
    file: (path) => bar.update({ file: path }),
    bytes: (done) => bar.update(done, { done: formatBytes(done) }),
    end: () => {
      if (isStarted) bar.stop();
    },
  };
}

function lineProgress(stream: NodeJS.WriteStream): PullProgress & { end(): void } {
  return {
    begin: (fileCount, totalBytes) =>
      void stream.write(`${fileCount} ${fileCount === 1 ? 'file' : 'files'}, ${formatBytes(totalBytes)}\n`),
    file: (path, bytes, isCached) =>
      void stream.write(`${path}, ${formatBytes(bytes)}${isCached ? ', already there' : ''}\n`),
    bytes: () => {},
    end: () => {},
  };
}
