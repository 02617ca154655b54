import type { Row, Table } from '../study/scenario.js';

/** Rows of two tables that are the same one, by what names them. */
export interface MatchedTable {
  /** Columns that name a row. */
  readonly keys: readonly string[];
  /** The others that both tables have. */
  readonly columns: readonly string[];
  readonly pairs: readonly { readonly key: string; readonly a: Row; readonly b: Row }[];
  readonly onlyA: readonly string[];
  readonly onlyB: readonly string[];
}

/**
 * A row is named by its first columns, as many as it takes for all rows of each table to have different names; tables
 * begin with what was varied and go on with what was found. Where no number of columns is enough, equal names count up.
 */
export function matchTables(a: Table, b: Table): MatchedTable {
  const shared = Object.keys(a.rows[0] ?? {}).filter((column) => column in (b.rows[0] ?? {}));
  const keys = shared.slice(0, keyCount(a.rows, b.rows, shared));
  const columns = shared.slice(keys.length);
  const [rowsA, rowsB] = [rowsByKey(a.rows, keys), rowsByKey(b.rows, keys)];
  const pairs = [...rowsA].flatMap(([key, row]) => (rowsB.has(key) ? [{ key, a: row, b: rowsB.get(key)! }] : []));
  const missing = (one: Map<string, Row>, other: Map<string, Row>) => [...one.keys()].filter((key) => !other.has(key));
  return { keys, columns, pairs, onlyA: missing(rowsA, rowsB), onlyB: missing(rowsB, rowsA) };
}

/** Rows by their names, see {@link matchTables}. */
export function rowsByKey(rows: readonly Row[], keys: readonly string[]): Map<string, Row> {
  const byKey = new Map<string, Row>();
  for (const row of rows) {
    const name = nameOf(row, keys);
    let key = name;
    for (let count = 2; byKey.has(key); count++) key = `${name} (${count})`;
    byKey.set(key, row);
  }
  return byKey;
}

function keyCount(a: readonly Row[], b: readonly Row[], columns: readonly string[]): number {
  const isUnique = (rows: readonly Row[], keys: readonly string[]) =>
    new Set(rows.map((row) => nameOf(row, keys))).size === rows.length;
  for (let count = 1; count <= columns.length; count++) {
    const keys = columns.slice(0, count);
    if (isUnique(a, keys) && isUnique(b, keys)) return count;
  }
  const isWord = (column: string) => [...a, ...b].every((row) => typeof row[column] === 'string');
  const figure = columns.findIndex((column) => !isWord(column));
  return figure === -1 ? columns.length : figure;
}

function nameOf(row: Row, keys: readonly string[]): string {
  return keys.map((key) => (typeof row[key] === 'number' ? `${key} ${row[key]}` : String(row[key]))).join(', ');
}
