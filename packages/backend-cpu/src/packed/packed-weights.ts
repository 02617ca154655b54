import type { FileHandle } from 'node:fs/promises';
import { type BackendLoad, checkLoadSignal, StetError } from '@stet/backend';
import type { Addon, NativeHandle } from '../addon.js';
import { DEFAULT_PACKED_BYTES, type PackedOutcome, type PackedWeightsOptions } from '../options.js';
import { PackedFolder, reasonOf } from './folder.js';
import { PackedHeader } from './header.js';
import { packedIdentity } from './identity.js';

export interface PackedLoad {
  readonly handle: NativeHandle;
  /** The number of the kernels that pack. */
  readonly kernels: number;
  readonly load: BackendLoad;
  readonly options: PackedWeightsOptions;
}

/** Bytes of the image that are written at a time; a load can be aborted between them. */
const PIECE_BYTES = 8 * 2 ** 20;

/**
 * The packed weights of one load in a file of theirs. A file is used only where it is whole and of this very load, as its
 * header and its checksums show; any other is written anew. What goes wrong with files fails no load: it is reported,
 * and the weights are packed as they would be without files, to the same bits.
 */
export class PackedWeights {
  readonly #addon: Addon;
  readonly #handle: NativeHandle;
  readonly #load: BackendLoad;
  readonly #options: PackedWeightsOptions;
  readonly #folder: PackedFolder;
  readonly #name: string;
  readonly #header: PackedHeader | undefined;
  /** What is wrong with a file that is there. */
  #refused: string | undefined;
  #outcome: PackedOutcome | undefined;

  /** Throws `STET_ERR_UNSUPPORTED` for an option that makes no sense. */
  constructor(addon: Addon, { handle, kernels, load, options }: PackedLoad) {
    const { folder, maxBytes = DEFAULT_PACKED_BYTES } = options;
    if (folder === '') unsupported('packedWeights.folder is empty, expected a path');
    if (!(maxBytes >= 0)) unsupported(`packedWeights.maxBytes is ${maxBytes}, expected a number of bytes`);
    this.#addon = addon;
    this.#handle = handle;
    this.#load = load;
    this.#options = options;
    this.#folder = new PackedFolder(folder);
    if (load.weightsKey === undefined) {
      this.#name = '';
      this.#outcome = { kind: 'skipped', reason: 'the load has no key of its weights' };
      return;
    }
    const { key, name } = packedIdentity(addon, kernels, load.plan, load.weightsKey);
    this.#name = name;
    this.#header = new PackedHeader({ key, places: addon.imagePlaces(handle) });
  }

  /** Sets all weights from the file and resolves to true, or to false, with none set, where there is none to use. */
  async read(): Promise<boolean> {
    const header = this.#header;
    if (!header) return false;
    const file = await this.#folder.open(this.#name);
    if (file === undefined) return false;
    if ('refused' in file) {
      this.#refused = file.refused;
      return false;
    }
    try {
      this.#refused = await this.#readFile(file, header);
      checkLoadSignal(this.#load.signal);
      if (this.#refused !== undefined) {
        this.#addon.dropImage(this.#handle);
        return false;
      }
      this.#addon.adoptImage(this.#handle);
      await this.#folder.touch(file);
    } finally {
      await file.close();
    }
    this.#outcome = { kind: 'read', path: this.#folder.pathOf(this.#name), bytes: header.fileBytes };
    return true;
  }

  /** Fills the image, or resolves to why not. */
  async #readFile(file: FileHandle, header: PackedHeader): Promise<string | undefined> {
    try {
      const { size } = await file.stat();
      if (size !== header.fileBytes) return `it has ${size} bytes, expected ${header.fileBytes}`;
      const { buffer, bytesRead } = await file.read(Buffer.alloc(header.bytes), 0, header.bytes, 0);
      const expected = bytesRead === header.bytes ? header.sumsOf(buffer) : undefined;
      if (!expected) return 'its header is damaged or of another load';
      const sums = new Uint8Array(header.sumsBytes);
      await this.#addon.sumImage(this.#handle, sums, file.fd, header.bytes);
      return Buffer.compare(sums, expected) === 0 ? undefined : 'its weights are damaged';
    } catch (error) {
      return reasonOf(error);
    }
  }

  /** Writes the weights, all of which are set, to the file. Rejects with `STET_ERR_ABORTED` alone. */
  async keep(): Promise<void> {
    const header = this.#header;
    if (!header) return;
    const path = this.#folder.pathOf(this.#name);
    const bytes = header.fileBytes;
    const refused = this.#refused;
    const skip = (reason: string): void => {
      const before = refused === undefined ? '' : ` (in place of one that is not used: ${refused})`;
      this.#outcome = { kind: 'skipped', reason: `${path} was not written${before}: ${reason}` };
    };
    const sums = new Uint8Array(header.sumsBytes);
    await this.#addon.sumImage(this.#handle, sums, undefined, 0);
    try {
      const { maxBytes = DEFAULT_PACKED_BYTES } = this.#options;
      const noRoom = await this.#folder.makeRoom(this.#name, bytes, maxBytes);
      if (noRoom !== undefined) return skip(noRoom);
      await this.#folder.write(this.#name, (file) => this.#writeTo(file, header, sums));
      this.#outcome = { kind: 'written', path, bytes, ...(refused !== undefined && { replaced: refused }) };
    } catch (error) {
      checkLoadSignal(this.#load.signal);
      skip(reasonOf(error));
    }
  }

  async #writeTo(file: FileHandle, header: PackedHeader, sums: Uint8Array): Promise<void> {
    await writeAll(file, header.withSums(sums), 0);
    const piece = Buffer.alloc(Math.min(PIECE_BYTES, header.imageBytes));
    for (let at = 0; at < header.imageBytes; at += piece.length) {
      checkLoadSignal(this.#load.signal);
      const part = piece.subarray(0, Math.min(piece.length, header.imageBytes - at));
      this.#addon.copyImage(this.#handle, at, part);
      await writeAll(file, part, header.bytes + at);
    }
    checkLoadSignal(this.#load.signal);
  }

  /** Tells the caller what happened. */
  report(): void {
    if (this.#outcome) this.#options.onOutcome?.(this.#outcome);
  }
}

async function writeAll(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at, position + at);
    at += bytesWritten;
  }
}

function unsupported(message: string): never {
  throw new StetError('STET_ERR_UNSUPPORTED', message);
}
