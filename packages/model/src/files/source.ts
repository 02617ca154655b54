/**
 * Where a model's files come from: a folder, memory, a web server. Names are plain file names, without folders.
 * A source is owned by whoever opened it; `loadModel` takes it over.
 */
export interface FileSource {
  /** For messages: the folder's path or a URL. */
  readonly location: string;
  /** Names of all files, in no particular order. */
  list(): Promise<string[]>;
  /** Bytes in a file. Rejects with `STET_ERR_MODEL_NOT_FOUND` where there is none of that name. */
  size(name: string): Promise<number>;
  /**
   * Bytes start .. end - 1; the array is the caller's to keep and to change. Rejects with `STET_ERR_MODEL_NOT_FOUND`
   * where there is no such file, and with the code of the reader's choice where it is shorter than `end`.
   */
  read(name: string, start: number, end: number): Promise<Uint8Array>;
  /** Closes what is open. May be called twice. */
  close(): Promise<void>;
}
