import type { OpCase } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import { createReferenceOpRunner } from '@stet/reference';
import { describe, expect, it } from 'vitest';
import { createCpuOpRunner } from '../src/index.js';
import { isas, withoutAddon } from './support/machine.js';

/** Units of log2 in an integer of the definition: 65536·log2 e, as f32. */
const SCALE = 94548.4609375;
/** From 17 octaves on the sigmoid of a negative gate has a constant divisor; the last of 64 is where gates are capped. */
const DIVISOR_STEPS = 18 * 65536;
const LAST_STEP = 2 ** 22 + 5000;

describe.skipIf(withoutAddon)('swiglu', () => {
  const input = swigluOfEveryStep();
  it.each(isas)('has the bits of its definition on %s for every divisor', async (isa) => {
    const expected = await createReferenceOpRunner().run(input);
    const actual = await createCpuOpRunner({ isa }).run(input);
    expect(actual.output).toHaveLength(input.gate.length);
    expectEqualBits(actual.output, expected.output, `swiglu on ${isa}`);
  });

  it.each(isas)('has on %s the same bits for any number of elements', async (isa) => {
    const reference = createReferenceOpRunner();
    const runner = createCpuOpRunner({ isa });
    for (let count = 1; count <= 70; count++) {
      const part: OpCase = { kind: 'swiglu', gate: input.gate.slice(-count), up: input.up.slice(-count) };
      expectEqualBits((await runner.run(part)).output, (await reference.run(part)).output, `${count} elements`);
    }
  });
});

/** Gates of both signs at every integer that the definition's exponential takes, sparsely where its divisor is constant. */
function swigluOfEveryStep(): OpCase & { kind: 'swiglu' } {
  const gates: number[] = [0, -0];
  for (let step = 0; step < LAST_STEP; step += step < DIVISOR_STEPS ? 1 : 61) {
    const gate = (step + 0.5) / SCALE;
    gates.push(gate, -gate);
  }
  const gate = Float32Array.from(gates);
  return { kind: 'swiglu', gate, up: gate.map((_, i) => ((i * 2654435761) % 65521) / 8192 - 4) };
}
