import { SingleBar } from 'cli-progress';

/** How far a run is. `seconds` are what was expected, as {@link Unit.seconds}. */
export interface Progress {
  begin(totalSeconds: number, doneSeconds: number): void;
  /** What comes next. */
  unit(title: string): void;
  done(expectedSeconds: number): void;
  log(line: string): void;
  end(): void;
}

/** A bar on a terminal; elsewhere a line now and then. Both with the time left. */
export function openProgress(stream: NodeJS.WriteStream, clock: () => number = () => performance.now()): Progress {
  return stream.isTTY ? barProgress(stream, clock) : lineProgress(stream, clock);
}

function barProgress(stream: NodeJS.WriteStream, clock: () => number): Progress {
  const left = new TimeLeft(clock);
  const bar = new SingleBar({
    stream,
    format: '{bar} {percentage}%  {left}  {title}',
    hideCursor: true,
    barsize: 24,
    // The terminal wraps a bar that is too long, and then it cannot be drawn over.
    linewrap: false,
  });
  return {
    begin: (totalSeconds, doneSeconds) => {
      left.begin(totalSeconds, doneSeconds);
      bar.start(totalSeconds, doneSeconds, { left: left.text(), title: '' });
    },
    unit: (title) => bar.update({ title, left: left.text() }),
    done: (seconds) => {
      left.done(seconds);
      bar.increment(seconds, { left: left.text() });
    },
    log: (line) => {
      // The bar's line is cleared and drawn again below.
      stream.write(`\r\x1b[K${line}\n`);
      bar.updateETA();
    },
    end: () => bar.stop(),
  };
}

const LINE_EVERY_MS = 10_000;

function lineProgress(stream: NodeJS.WriteStream, clock: () => number): Progress {
  const left = new TimeLeft(clock);
  let lastMs = Number.NEGATIVE_INFINITY;
  return {
    begin: (totalSeconds, doneSeconds) => left.begin(totalSeconds, doneSeconds),
    unit: (title) => {
      if (clock() - lastMs < LINE_EVERY_MS) return;
      lastMs = clock();
      stream.write(`${left.percent()} %, ${left.text()}: ${title}\n`);
    },
    done: (seconds) => left.done(seconds),
    log: (line) => void stream.write(`${line}\n`),
    end: () => {},
  };
}

/** Reckons the time left from what was expected and what it took until now. */
export class TimeLeft {
  readonly #clock: () => number;
  #total = 0;
  #done = 0;
  #doneBefore = 0;
  #startMs = 0;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** `doneSeconds`: of an earlier run, of which nothing says how long it really took. */
  begin(totalSeconds: number, doneSeconds: number): void {
    this.#total = totalSeconds;
    this.#done = doneSeconds;
    this.#doneBefore = doneSeconds;
    this.#startMs = this.#clock();
  }

  done(expectedSeconds: number): void {
    this.#done += expectedSeconds;
  }

  percent(): number {
    return this.#total === 0 ? 100 : Math.floor((100 * this.#done) / this.#total);
  }

  seconds(): number {
    const expected = this.#done - this.#doneBefore;
    const spent = (this.#clock() - this.#startMs) / 1000;
    // Until there is something to go by, what was expected is.
    const pace = expected > 0 ? spent / expected : 1;
    return (this.#total - this.#done) * pace;
  }

  text(): string {
    const seconds = Math.round(this.seconds());
    return seconds < 60 ? `${seconds} s left` : `${Math.floor(seconds / 60)} min ${seconds % 60} s left`;
  }
}
