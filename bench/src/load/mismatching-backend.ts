import { type Backend, type BackendFactory, type Batch, type BatchResult, OUTPUT_LOGITS } from '@stet/backend';
import { seededUniform } from '../random.js';

/** A backend whose fast schedule is wrong more often than any real one: `rate` of its rows have another likeliest token. */
export function mismatching(create: BackendFactory, rate: number): BackendFactory {
  return async (load) => {
    const backend = await create(load);
    const uniform = seededUniform(1);
    const { vocabSize } = backend.info;
    return {
      // Wrong rows must not pass for canonical ones.
      info: { ...backend.info, fast: 'free' },
      ...(backend.sampler && { sampler: backend.sampler }),
      async forward(step) {
        const result = await backend.forward(step);
        if (step.fast && result.fast) confuse(step.fast, result.fast, vocabSize, () => uniform() < rate);
        return result;
      },
      close: () => backend.close(),
    } satisfies Backend;
  };
}

/** Exchanges the likeliest token of some rows with its neighbour; logits, where the row has any, go along. */
function confuse(
  { outputKinds }: Batch,
  { argmax, logits }: BatchResult,
  vocabSize: number,
  isHit: () => boolean,
): void {
  let logitsRow = 0;
  for (let output = 0; output < outputKinds.length; output++) {
    const start = outputKinds[output] === OUTPUT_LOGITS ? logitsRow++ * vocabSize : undefined;
    if (!isHit()) continue;
    const token = argmax[output]!;
    const other = (token + 1) % vocabSize;
    argmax[output] = other;
    if (start === undefined) continue;
    const logit = logits[start + token]!;
    logits[start + token] = logits[start + other]!;
    logits[start + other] = logit;
  }
}
