/** How often each thing happened in a run: a swarm that never does something tests nothing. */
export interface Tally {
  requests: number;
  steps: number;
  committedTokens: number;
  deterministic: number;
  ordinary: number;
  stopped: number;
  reachedLength: number;
  abortedWaiting: number;
  abortedInFlight: number;
  abortedBetween: number;
  failedSteps: number;
  failedRequests: number;
  deviceLosses: number;
  rebuiltSequences: number;
  retries: number;
  refusals: number;
  queueFull: number;
  pauses: number;
  preemptionsAsked: number;
  preemptions: number;
  policyChanges: number;
  lateResults: number;
  clockJumps: number;
  windows: number;
  rollbacks: number;
  recomputedTokens: number;
  draftedTokens: number;
  acceptedTokens: number;
  injectedMismatches: number;
  prefixHits: number;
  evictions: number;
}

export function emptyTally(): Tally {
  return {
    requests: 0,
    steps: 0,
    committedTokens: 0,
    deterministic: 0,
    ordinary: 0,
    stopped: 0,
    reachedLength: 0,
    abortedWaiting: 0,
    abortedInFlight: 0,
    abortedBetween: 0,
    failedSteps: 0,
    failedRequests: 0,
    deviceLosses: 0,
    rebuiltSequences: 0,
    retries: 0,
    refusals: 0,
    queueFull: 0,
    pauses: 0,
    preemptionsAsked: 0,
    preemptions: 0,
    policyChanges: 0,
    lateResults: 0,
    clockJumps: 0,
    windows: 0,
    rollbacks: 0,
    recomputedTokens: 0,
    draftedTokens: 0,
    acceptedTokens: 0,
    injectedMismatches: 0,
    prefixHits: 0,
    evictions: 0,
  };
}

export function addTally(total: Tally, more: Tally): void {
  for (const key of Object.keys(total) as (keyof Tally)[]) total[key] += more[key];
}
