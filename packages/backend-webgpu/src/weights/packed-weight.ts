/** An array of a matrix part in its layout on the device, made piece by piece: (unitCount × rowCount) units of 1 or 4 words. */
export interface PackedArray {
  readonly unitCount: number;
  readonly rowCount: number;
  readonly wordsPerUnit: 1 | 4;
  /** Writes units first .. first + count - 1 of every row to the start of `target`. */
  pack(first: number, count: number, target: Int32Array): void;
}

/** What the host gives for one part of a matrix: outputs firstRow .. firstRow + rowCount - 1. */
export interface PackedPart {
  readonly data: PackedArray;
  readonly scales?: PackedArray;
}

/** A matrix that can be packed part by part. */
export interface PackedMatrix {
  /** Bytes of `data` and of `scales` that a row takes on the device, the larger of the two. */
  readonly rowBytes: number;
  part(firstRow: number, rowCount: number): PackedPart;
}

/** The array's bytes as words: in place where they are aligned, else a copy. */
export function wordsOf(array: Int8Array | Uint8Array | Uint16Array | Float32Array): Int32Array {
  const { buffer, byteOffset, byteLength } = array;
  if (byteOffset % 4 === 0) return new Int32Array(buffer, byteOffset, byteLength / 4);
  return new Int32Array(buffer.slice(byteOffset, byteOffset + byteLength));
}
