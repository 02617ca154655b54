/** A tensor of a checkpoint, whatever the format of its file. */
export interface StoredTensor {
  readonly name: string;
  readonly file: string;
  readonly type: TensorType;
  /** Outermost first: [rows, columns] of a matrix. */
  readonly shape: readonly number[];
  /** Bytes start .. end - 1 of the file. */
  readonly start: number;
  readonly end: number;
}

/** How the elements of a tensor are stored: in blocks along a row, of one element where nothing is shared. */
export interface TensorType {
  /** As its format names it, e.g. `BF16` or `Q4_K`. */
  readonly name: string;
  readonly blockValues: number;
  readonly blockBytes: number;
  /**
   * The values of whole blocks, exactly as the format's reference gives them: target has blockValues values for every
   * blockBytes bytes. Absent where values cannot be weights (integers, types that are not supported).
   */
  readonly decode?: (bytes: Uint8Array, target: Float32Array) => void;
  /**
   * Of types whose values are s·q + m with q in 0..15, in blocks of 32: their integers in the order of the format `q4`,
   * and s and m of each block, exact (`centreQ4` makes its parameters of them). The same bytes as `decode`; 16 nibble
   * bytes (from a multiple of 4 in their buffer on), a scale and a minimum a block.
   */
  readonly splitQ4?: (bytes: Uint8Array, nibbles: Uint8Array, scales: Float32Array, minima: Float32Array) => void;
}

/** Where the rows of a weight are in a checkpoint: a whole tensor, or some rows of one that several weights share. */
export interface TensorRows {
  readonly tensor: string;
  /** Rows of the tensor before those of the weight, and all its rows; absent where the weight is the whole tensor. */
  readonly slice?: { readonly firstRow: number; readonly tensorRows: number };
  /**
   * Order of the rows within each head of `headSize` rows, where it is not the plan's. `pairs`: rows 2i and 2i + 1 are
   * rotated together (GGUF's `llama`), which the plan has at i and i + headSize / 2.
   */
  readonly headRows?: { readonly order: 'pairs'; readonly headSize: number };
}

/** From the name of a weight in the plan to its place in the checkpoint. */
export type WeightPlaces = (weight: string) => TensorRows;
