import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Json } from './scenario.js';

/** What a unit measured, and what the journal belongs to. */
interface Entry {
  readonly scenario: string;
  readonly key: string;
  readonly measure: Json;
}

/**
 * A file with a line for each unit that is done, so that an interrupted run goes on where it stopped. It belongs to one
 * study on one machine, whose identity is its first line; a journal of any other is begun anew.
 */
export class Journal {
  readonly #file: string;
  readonly #measures = new Map<string, Json>();

  private constructor(file: string) {
    this.#file = file;
  }

  /** `isFresh`: forgets what an earlier run left. */
  static open(file: string, identity: Json, isFresh: boolean): Journal {
    const journal = new Journal(file);
    const head = JSON.stringify(identity);
    const lines = !isFresh && existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
    if (lines[0] !== head) {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, `${head}\n`);
      return journal;
    }
    const entries = lines.slice(1).map(parseEntry);
    // What follows a line that the interruption cut short was never written.
    const whole = entries.includes(undefined) ? entries.slice(0, entries.indexOf(undefined)) : entries;
    for (const { scenario, key, measure } of whole as Entry[]) journal.#measures.set(place(scenario, key), measure);
    writeFileSync(file, [head, ...lines.slice(1, 1 + whole.length), ''].join('\n'));
    return journal;
  }

  /** Units that are done. */
  get size(): number {
    return this.#measures.size;
  }

  find(scenario: string, key: string): Json | undefined {
    return this.#measures.get(place(scenario, key));
  }

  add(scenario: string, key: string, measure: Json): void {
    this.#measures.set(place(scenario, key), measure);
    appendFileSync(this.#file, `${JSON.stringify({ scenario, key, measure } satisfies Entry)}\n`);
  }
}

function place(scenario: string, key: string): string {
  return `${scenario}\n${key}`;
}

function parseEntry(line: string): Entry | undefined {
  if (line === '') return undefined;
  try {
    return JSON.parse(line) as Entry;
  } catch {
    return undefined;
  }
}
