/** How text between added tokens becomes ids, and back. */
export interface TextEncoding {
  /** Spaces that it puts in front of a text, and that decoding takes off again. */
  readonly leadingSpaces: number;
  /** Appends the ids of a text, not empty, without lone surrogates; pure otherwise. Throws `STET_ERR_BAD_REQUEST`. */
  encode(text: string, ids: number[]): void;
}
