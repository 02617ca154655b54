import { type OpVector, opVectors } from '@stet/backend/self-test';
import { describe, expect, it } from 'vitest';
import { loadMutant, type Mutation } from './mutants.js';

/** Each of them is a mistake that a kernel's author could make. */
const mutations: readonly Mutation[] = [
  { file: 'primitives.ts', from: '27394 +', to: '27395 +' },
  { file: 'primitives.ts', from: '+ 65536) >>> 17', to: '+ 61440) >>> 17' },
  { file: 'primitives.ts', from: '+ 0x80) >>> 8', to: '+ 0x7f) >>> 8' },
  { file: 'primitives.ts', from: 'root * root > root ?', to: 'root * root >= root ?' },
  { file: 'primitives.ts', from: '(divisor >>> 1)', to: '0' },
  { file: 'primitives.ts', from: 'odd ? 256 : 128', to: 'odd ? 128 : 256' },
  { file: 'primitives.ts', from: '-1073741824', to: '-973741824' },
  { file: 'primitives.ts', from: 'Math.min(1073741824, x)', to: 'Math.min(2147483647, x)' },
  { file: 'primitives.ts', from: '((1 << shift) >> 1)', to: '0' },
  { file: 'primitives.ts', from: 'shift >= 16 ?', to: 'shift >= 14 ?' },
  { file: 'primitives.ts', from: 'shift >= 64)', to: 'shift >= 65)' },
  { file: 'primitives.ts', from: 'shift >= 64)', to: 'shift >= 63)' },
  { file: 'primitives.ts', from: 'Math.abs(scaled) < FLUSH', to: 'Math.abs(scaled) < 0' },
  { file: 'primitives.ts', from: 'bitsOf(x) & ~1', to: 'bitsOf(x)' },
  { file: 'primitives.ts', from: 'x + 6755399441055744 - 6755399441055744', to: 'Math.floor(x + 0.5)' },
  {
    file: 'primitives.ts',
    from: 'magnitude > 0x4e800000) magnitude = 0x4e800000',
    to: 'magnitude > 0x4f000000) magnitude = 0x4f000000',
  },
  { file: 'primitives.ts', from: '(magnitude + 0x80)', to: '(magnitude + 0x7f)' },
  { file: 'primitives.ts', from: 'clampedBits(x) & ~0xfff', to: '(clampedBits(x) + 0x800) & ~0xfff' },
  { file: 'primitives.ts', from: 'Math.min(magnitude, 0x58800000)', to: 'magnitude' },
  { file: 'ops/q15.ts', from: '0x1ffff', to: '0x1fffe' },
  { file: 'ops/q15.ts', from: 'Math.min(20, exponent)', to: 'Math.min(21, exponent)' },
  { file: 'ops/q15.ts', from: 'Math.max(-40,', to: 'Math.max(-41,' },
  { file: 'ops/q15.ts', from: '(quant + 64)', to: '(quant + 63)' },
  { file: 'ops/q15.ts', from: 'const LARGEST = 16256', to: 'const LARGEST = 16257' },
  { file: 'ops/linear-bf16.ts', from: 'start += BF16_SEGMENT', to: 'start += 2 * BF16_SEGMENT' },
  { file: 'ops/linear-bf16.ts', from: 'segment0 = 0', to: 'segment0 = sums[0]' },
  { file: 'ops/linear-q8.ts', from: 'start + segmentBlocks', to: 'start + segmentBlocks - 1' },
  { file: 'ops/linear-q8.ts', from: 'segment + highDot * scale', to: 'segment + lowDot * scale * 2 ** -7' },
  // q8 scales of seven bits.
  {
    file: 'ops/linear-q8.ts',
    from: 'scales[weightBlock + b] * powers[activationBlock + b]',
    to: `new Float32Array(Uint32Array.of(
        new Uint32Array(scales.buffer, scales.byteOffset)[weightBlock + b] & ~0x1ffff,
      ).buffer)[0] * powers[activationBlock + b]`,
  },
  // q4: planes swapped, the third term first, other segments, z not rounded, rounded to 15 bits or with another step, the
  // halves of a byte swapped, a centre left out or counted from q = 0, another middle of the quants, sums of a plane alone.
  {
    file: 'ops/linear-q4.ts',
    from: 'segment + highDot * scale',
    to: 'segment + lowDot * scale * 2 ** -7',
  },
  {
    file: 'ops/linear-q4.ts',
    from: `segment = fround(segment + highDot * scale);
      segment = fround(segment + lowDot * (scale * 2 ** -7));`,
    to: 'segment = fround(segment + lowDot * (scale * 2 ** -7)); segment = fround(segment + highDot * scale);',
  },
  {
    file: 'ops/linear-q4.ts',
    from: `segment = fround(segment + highDot * scale);
      segment = fround(segment + lowDot * (scale * 2 ** -7));
      segment = fround(segment + sums[activationBlock + b] * centres[b]);`,
    to: `segment = fround(segment + sums[activationBlock + b] * centres[b]);
      segment = fround(segment + highDot * scale);
      segment = fround(segment + lowDot * (scale * 2 ** -7));`,
  },
  {
    file: 'ops/linear-q4.ts',
    from: `segment = fround(segment + highDot * scale);
      segment = fround(segment + lowDot * (scale * 2 ** -7));`,
    to: 'segment = fround(segment + (128 * highDot + lowDot) * (scale * 2 ** -7));',
  },
  { file: 'ops/linear-q4.ts', from: 'start + segmentBlocks, blockCount', to: 'start + segmentBlocks - 1, blockCount' },
  { file: '../../backend/src/numerics/constants.ts', from: 'Q4_SEGMENT_BLOCKS = 8', to: 'Q4_SEGMENT_BLOCKS = 16' },
  { file: 'ops/linear-q4.ts', from: 'let segment = 0;', to: 'let segment = sum; sum = 0;' },
  { file: 'ops/linear-q4.ts', from: 'r16(128 * highSum + lowSum)', to: '(128 * highSum + lowSum)' },
  {
    file: 'ops/linear-q4.ts',
    from: 'r16(128 * highSum + lowSum)',
    to: 'r16((128 * highSum + lowSum) * (1 + 2 ** -16))',
  },
  { file: 'ops/linear-q4.ts', from: 'r16(128 * highSum + lowSum)', to: 'fround(r16(128 * highSum) + r16(lowSum))' },
  { file: 'ops/linear-q4.ts', from: '128 * highSum + lowSum', to: '128 * highSum' },
  {
    file: 'ops/linear-q4.ts',
    from: 'sums[activationBlock + b] * centres[b]',
    to: 'sums[activationBlock + b] * (centres[b] - 8 * scales[b])',
  },
  { file: 'ops/linear-q4.ts', from: 'sums[activationBlock + b] * centres[b]', to: '0' },
  { file: 'ops/linear-q4.ts', from: 'steps[b * BLOCK + i] = (pair & 15)', to: 'steps[b * BLOCK + i] = (pair >> 4)' },
  {
    file: 'ops/linear-q4.ts',
    from: 'steps[b * BLOCK + i + 16] = (pair >> 4)',
    to: 'steps[b * BLOCK + i + 16] = (pair & 15)',
  },
  { file: 'ops/linear-q4.ts', from: '(pair & 15) - 8', to: '(pair & 15) - 7' },
  { file: 'ops/linear-q4.ts', from: '(pair >> 4) - 8', to: '(pair >> 4)' },
  { file: 'ops/embed.ts', from: '(i & 16) === 0', to: '(i & 1) === 0' },
  {
    file: 'ops/embed.ts',
    from: 'Math.fround(product + fromBits(table.centres[block] << 16))',
    to: 'product',
  },
  { file: 'ops/embed.ts', from: '(quant - 8)', to: '(quant - 7)' },
  { file: 'ops/rms-norm.ts', from: 'r16(fround(rsqrt', to: 'fround(fround(rsqrt' },
  {
    file: 'ops/rms-norm.ts',
    from: 'half = NORM_LANES / 2; half >= 1; half /= 2',
    to: 'half = 1; half < NORM_LANES; half *= 2',
  },
  { file: 'ops/rope.ts', from: 'b1(fround(aLow * c', to: '(fround(aLow * c' },
  {
    file: 'ops/attention.ts',
    from: 'score + mixed * pow2(exponent - 7)',
    to: 'score + (mixed + 1) * pow2(exponent - 7)',
  },
  { file: 'ops/rms-norm.ts', from: 'i % NORM_LANES', to: 'Math.floor((i * NORM_LANES) / width)' },
  { file: 'ops/rms-norm.ts', from: 'rsqrt(fround(sum + scaledEpsilon))', to: '1 / Math.sqrt(sum + scaledEpsilon)' },
  {
    file: 'ops/rms-norm.ts',
    from: 'rsqrt(fround(sum + scaledEpsilon)) * rootWidth',
    to: 'rsqrt(fround(fround(sum / width) + epsilon))',
  },
  { file: 'ops/attention.ts', from: 'recip(denominator)', to: 'fround(1 / denominator)' },
  {
    file: 'ops/attention.ts',
    from: 'score + high * pow2(exponent));',
    to: 'score + mixed * pow2(exponent - 7));\n    mixed = 128 * high;',
  },
  {
    file: 'ops/attention.ts',
    from: 'let block = 0; block < padded; block += BLOCK) {\n    const end = block + BLOCK;\n    let high = 0;',
    to: 'let block = padded - BLOCK; block >= 0; block -= BLOCK) {\n    const end = block + BLOCK;\n    let high = 0;',
  },
  { file: 'ops/attention.ts', from: '& 0xffff) >> 2', to: '& 0xfffe) >> 2' },
  { file: 'ops/attention.ts', from: 'power & 127', to: 'power & 126' },
  { file: '../../backend/src/numerics/bits.ts', from: '(u + 0x800)', to: '(u + 0x7ff)' },
  {
    file: '../../backend/src/numerics/bits.ts',
    from: 'u > 0x58800000) u = 0x58800000',
    to: 'u > 0x59000000) u = 0x59000000',
  },
  { file: '../../backend/src/numerics/constants.ts', from: 'NORM_LANES = 128', to: 'NORM_LANES = 64' },
  { file: '../../backend/src/numerics/constants.ts', from: 'ATTENTION_CHUNK = 64', to: 'ATTENTION_CHUNK = 128' },
  { file: '../../backend/src/numerics/constants.ts', from: 'BF16_SEGMENT = 256', to: 'BF16_SEGMENT = 128' },
  {
    file: '../../backend/src/numerics/constants.ts',
    from: 'Math.sqrt(headSize)',
    to: 'Math.sqrt(32 * Math.ceil(headSize / 32))',
  },
  { file: '../../backend/src/numerics/rope-tables.ts', from: 'toGrid(r12(Math.fround(c', to: '((Math.fround(c' },
  { file: '../../backend/src/numerics/rope-tables.ts', from: 's * rope.attentionFactor', to: 's' },
  { file: 'ops/swiglu.ts', from: '4194304', to: '4194200' },
  { file: 'ops/swiglu.ts', from: 'shift > 16 ? 0', to: 'shift > 13 ? 0' },
  // Groups of rmsNorm: constants, mean and lanes of the row; every other group left out; another order within a group.
  { file: 'ops/rms-norm.ts', from: 'rmsNormConstants(groupWidth', to: 'rmsNormConstants(width' },
  { file: 'ops/rms-norm.ts', from: '(input, start, groupWidth', to: '(input, start - (start % width), width' },
  { file: 'ops/rms-norm.ts', from: 'start += groupWidth', to: 'start += width' },
  { file: 'ops/rms-norm.ts', from: 'i % NORM_LANES', to: 'width === 16 ? 0 : i % NORM_LANES' },
  { file: 'ops/rms-norm.ts', from: 'i % NORM_LANES', to: 'width === 48 ? i % 16 : i % NORM_LANES' },
  { file: 'ops/rms-norm.ts', from: 'i % NORM_LANES', to: 'width === 160 ? i % 32 : i % NORM_LANES' },
  // Windows: one position too many, one too few, none before the context, chunks counted from the window's start.
  { file: 'ops/attention.ts', from: 'position - windowSize + 1', to: 'position - windowSize' },
  { file: 'ops/attention.ts', from: 'position - windowSize + 1', to: 'position - windowSize + 2' },
  { file: 'ops/attention.ts', from: 'Math.max(0, position - windowSize + 1)', to: 'position - windowSize + 1' },
  {
    file: 'ops/attention.ts',
    from: 'start - (start % ATTENTION_CHUNK) + ATTENTION_CHUNK',
    to: 'start + ATTENTION_CHUNK',
  },
  // The first chunk: all of it, its maximum over all of it, joined to a maximum of 0, its masked part as low scores.
  { file: 'ops/attention.ts', from: 'let start = first;', to: 'let start = (first -= first % ATTENTION_CHUNK);' },
  {
    file: 'ops/attention.ts',
    from: 'const chunkMax = scoreChunk(scratch, layer, kvHead, slots, start, count);',
    to: `const masked = start % ATTENTION_CHUNK;
      const chunkMax = scoreChunk(scratch, layer, kvHead, slots, start - masked, count + masked);
      scoreChunk(scratch, layer, kvHead, slots, start, count);`,
  },
  { file: 'ops/attention.ts', from: 'start === first ? chunkMax', to: 'start === 0 ? chunkMax' },
  {
    file: 'ops/attention.ts',
    from: `const count = end - start;
    const chunkMax = scoreChunk(scratch, layer, kvHead, slots, start, count);`,
    to: `const masked = start % ATTENTION_CHUNK;
      if (start === first) first -= masked;
      start -= masked;
      const count = end - start;
      scoreChunk(scratch, layer, kvHead, slots, start, count);
      scratch.integers.fill(-16384, 0, masked);
      scratch.powers.fill(8192, 0, masked);
      const chunkMax = Math.max(...scratch.integers.subarray(0, count));`,
  },
  // The exponent of a masked value raises what the sums of its block are relative to.
  {
    file: 'ops/attention.ts',
    from: 'let max = Number.NEGATIVE_INFINITY;\n    for (let j = 0; j < count; j++) {\n      const value',
    to: `let max = Number.NEGATIVE_INFINITY;
      if (start % ATTENTION_CHUNK !== 0) {
        max = integers[0] + exponents[(kvOffset(layer, slots[start - 1], kvHead) + block) / BLOCK];
      }
      for (let j = 0; j < count; j++) {
      const value`,
  },
];

describe('the golden vectors', () => {
  const vectors = opVectors();

  it.each(mutations)('catch $from → $to in $file', async (mutation) => {
    const mutant = await loadMutant(mutation);
    expect(vectors.some((vector) => differs(vector, mutant))).toBe(true);
  });

  it('pass the same build without a mutation', async () => {
    const original = await loadMutant({ file: 'ops/add.ts', from: 'left[i] + right[i]', to: 'right[i] + left[i]' });
    expect(vectors.filter((vector) => differs(vector, original)).map((vector) => vector.name)).toEqual([]);
  });
});

function differs(vector: OpVector, mutant: (input: OpVector['case']) => Float32Array): boolean {
  const expected = new Uint32Array(vector.outputs.output.buffer);
  const actual = new Uint32Array(mutant(vector.case).buffer);
  return expected.some((bits, i) => bits !== actual[i]);
}
