/** GPT-2's alphabet, by byte: printable bytes are themselves, the other ones follow from U+0100 on. */
export function byteLevelAlphabet(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    return String.fromCharCode(printable ? byte : next++);
  });
}

/** The byte of each character of {@link byteLevelAlphabet}. */
export function byteLevelTable(): Map<string, number> {
  return new Map(byteLevelAlphabet().map((character, byte) => [character, byte]));
}

/** undefined where a character stands for no byte: then the token is text, as the tokenizers library has it. */
export function byteLevelBytes(token: string, byteOf: ReadonlyMap<string, number>): Uint8Array | undefined {
  const bytes: number[] = [];
  for (const character of token) {
    const byte = byteOf.get(character);
    if (byte === undefined) return undefined;
    bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}
