import { mix32 } from '../hash.js';

/** What happened, line by line, in words that depend on the seed alone. Keeps the last lines and a digest of all. */
export class Trace {
  private readonly onLine: ((line: string) => void) | undefined;
  private readonly last: string[] = [];
  private hash = 0;

  constructor(onLine?: (line: string) => void) {
    this.onLine = onLine;
  }

  write(line: string): void {
    for (let i = 0; i < line.length; i++) this.hash = mix32(this.hash, line.charCodeAt(i));
    this.last.push(line);
    if (this.last.length > 12) this.last.shift();
    this.onLine?.(line);
  }

  get tail(): readonly string[] {
    return this.last;
  }

  /** Eight hexadecimal digits. */
  get digest(): string {
    return (this.hash >>> 0).toString(16).padStart(8, '0');
  }
}
