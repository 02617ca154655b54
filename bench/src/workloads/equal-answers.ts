/** A digest of the answer to each deterministic request of a trace, by its place. */
export type AnswerDigests = { readonly [place: string]: string };

/** Hexadecimal digits that are kept: enough to see a difference. */
const DIGITS = 8;

/** `hashes`: of all answers; undefined where the request was not deterministic. */
export function answerDigests(hashes: readonly (string | undefined)[]): AnswerDigests {
  return Object.fromEntries(
    hashes.flatMap((hash, place) => (hash === undefined ? [] : [[`${place}`, hash.slice(0, DIGITS)]])),
  );
}

export interface EqualAnswers {
  /** Different requests. */
  readonly requests: number;
  readonly answers: number;
  /** Requests that got answers which differ, by trace and place. */
  readonly different: readonly string[];
}

/** Holds all answers to one request against each other. `runs`: every run of a trace, by what the trace is called. */
export function compareAnswers(runs: Iterable<readonly [trace: string, digests: AnswerDigests]>): EqualAnswers {
  const known = new Map<string, string>();
  const different = new Set<string>();
  let answers = 0;
  for (const [trace, digests] of runs) {
    for (const [place, digest] of Object.entries(digests)) {
      const request = `${trace}, request ${place}`;
      answers++;
      const first = known.get(request) ?? digest;
      known.set(request, first);
      if (first !== digest) different.add(request);
    }
  }
  return { requests: known.size, answers, different: [...different] };
}

export function equalAnswersFinding({ requests, answers, different }: EqualAnswers, under: string): string {
  return different.length === 0
    ? `All ${answers} answers to ${requests} deterministic requests were the same, token for token, under ${under}.`
    : `${different.length} of ${requests} deterministic requests got answers that differ, which must never happen.`;
}

/** For `ScenarioResult.failure`. */
export function equalAnswersFailure({ different }: EqualAnswers): { readonly failure?: string } {
  if (different.length === 0) return {};
  return { failure: `answers to a deterministic request differ: ${different.slice(0, 5).join('; ')}` };
}
