import type { SequenceRequest, StopMatcher } from '@stet/scheduler';

/** A request as the simulator makes it: what its stop matcher looks for is known, so that an oracle can look too. */
export interface SimulatedRequest {
  readonly request: SequenceRequest;
  /** Output that ends with these tokens is complete; empty: none. */
  readonly stopSuffix: readonly number[];
  /** 0, and one more each time it was sent again after an error. */
  readonly attempt: number;
}

/** Ends the output when its last tokens are `suffix`: the state is how much of it stands at the end. */
export function suffixMatcher(suffix: readonly number[]): StopMatcher<readonly number[]> {
  return {
    initial: [],
    next: (state, token) => [...state, token].slice(-suffix.length),
    matched: (state) => state.length === suffix.length && state.every((token, i) => token === suffix[i]),
  };
}
