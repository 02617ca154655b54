import type { GenerateEvent, Receipt } from '@stet/engine';
import type { MeterReading } from './meter.js';

/** What is known of one answer, as far as it has come. */
export interface Figures {
  readonly reading: MeterReading;
  readonly seed?: number;
  readonly hash?: string;
  readonly windows?: number;
  readonly rollbacks?: number;
  readonly recomputedTokens?: number;
  readonly receipt?: Receipt;
}

export const noFigures: Figures = { reading: { tokenCount: 0 } };

/** The figures after an event, which `reading` has measured. */
export function figuresAfter(figures: Figures, event: GenerateEvent, reading: MeterReading): Figures {
  switch (event.type) {
    case 'accepted':
      return { ...figures, reading, seed: event.seed };
    case 'commit':
      return { ...figures, reading, hash: event.hash };
    case 'done': {
      const { windows, rollbacks, recomputedTokens } = event.stats;
      return {
        ...figures,
        reading,
        windows,
        rollbacks,
        recomputedTokens,
        ...(event.receipt && { receipt: event.receipt }),
      };
    }
    default:
      return { ...figures, reading };
  }
}
