/**
 * How many bytes at the end of `bytes` are the valid beginning of a character that is not whole yet: 0 to 3. Bytes
 * that can no longer become a character count as whole; decoding makes U+FFFD of them, as it would in one go.
 */
export function incompleteTail(bytes: Uint8Array): number {
  for (let length = 1; length <= Math.min(3, bytes.length); length++) {
    const lead = bytes[bytes.length - length]!;
    if (isContinuation(lead)) continue;
    const needed =
      lead >= 0xf0 && lead <= 0xf4 ? 4 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xc2 && lead < 0xe0 ? 2 : 1;
    if (needed <= length) return 0;
    if (length > 1 && !isSecond(lead, bytes[bytes.length - length + 1]!)) return 0;
    return length;
  }
  return 0;
}

function isContinuation(byte: number): boolean {
  return byte >= 0x80 && byte < 0xc0;
}

/** Some leads allow fewer second bytes: no overlong forms, no surrogates, nothing above U+10FFFF. */
function isSecond(lead: number, second: number): boolean {
  switch (lead) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second < 0xa0;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second < 0x90;
    default:
      return true;
  }
}
