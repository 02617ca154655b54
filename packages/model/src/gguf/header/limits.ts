/** Bytes of a header that are read at most; those of released models have below 20 MiB. */
export const MAX_HEADER_BYTES = 256 * 2 ** 20;
/** Most key-value pairs. */
export const MAX_KEYS = 2 ** 16;
/** Most tensors of one file. */
export const MAX_TENSORS = 2 ** 16;
/** Most elements of an array; the largest in use are the merges of a vocabulary. */
export const MAX_ARRAY_LENGTH = 2 ** 22;
/** Limits of the format itself. */
export const MAX_KEY_BYTES = 2 ** 16 - 1;
export const MAX_TENSOR_NAME_BYTES = 64;
export const MAX_RANK = 4;
export const DEFAULT_ALIGNMENT = 32;
