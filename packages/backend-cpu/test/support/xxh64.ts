/** XXH64 with seed 0, word by word as its description has it, in big integers. */
export function xxh64(bytes: Uint8Array): bigint {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  let hash = PRIME_5;
  if (bytes.length >= 32) {
    const sums = [u64(PRIME_1 + PRIME_2), PRIME_2, 0n, u64(-PRIME_1)];
    for (; at + 32 <= bytes.length; at += 32) {
      for (let i = 0; i < 4; i++) sums[i] = mix(sums[i], view.getBigUint64(at + 8 * i, true));
    }
    hash = u64(rotate(sums[0], 1n) + rotate(sums[1], 7n) + rotate(sums[2], 12n) + rotate(sums[3], 18n));
    for (const sum of sums) hash = u64((hash ^ mix(0n, sum)) * PRIME_1 + PRIME_4);
  }
  hash = u64(hash + BigInt(bytes.length));
  for (; at + 8 <= bytes.length; at += 8) {
    hash = u64(rotate(hash ^ mix(0n, view.getBigUint64(at, true)), 27n) * PRIME_1 + PRIME_4);
  }
  for (; at + 4 <= bytes.length; at += 4) {
    hash = u64(rotate(hash ^ u64(BigInt(view.getUint32(at, true)) * PRIME_1), 23n) * PRIME_2 + PRIME_3);
  }
  for (; at < bytes.length; at++) hash = u64(rotate(hash ^ u64(BigInt(bytes[at]) * PRIME_5), 11n) * PRIME_1);
  hash = u64((hash ^ (hash >> 33n)) * PRIME_2);
  hash = u64((hash ^ (hash >> 29n)) * PRIME_3);
  return hash ^ (hash >> 32n);
}

const PRIME_1 = 0x9e3779b185ebca87n;
const PRIME_2 = 0xc2b2ae3d27d4eb4fn;
const PRIME_3 = 0x165667b19e3779f9n;
const PRIME_4 = 0x85ebca77c2b2ae63n;
const PRIME_5 = 0x27d4eb2f165667c5n;

function u64(value: bigint): bigint {
  return BigInt.asUintN(64, value);
}

function rotate(value: bigint, bits: bigint): bigint {
  return u64(value << bits) | (value >> (64n - bits));
}

function mix(sum: bigint, word: bigint): bigint {
  return u64(rotate(u64(sum + u64(word * PRIME_2)), 31n) * PRIME_1);
}
