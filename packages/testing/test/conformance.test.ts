import {
  caseName,
  conformanceCases,
  conformanceModels,
  conformanceSuite,
  runCase,
  testBackend,
} from '@stet/backend/conformance';
import { describe, expect, it } from 'vitest';
import { createFakeBackend, type FakeFault } from '../src/index.js';

const golden = conformanceCases.filter(({ group }) => group === 'golden').map(caseName);
const skip = [
  { reason: 'a fake computes a toy model, not the numerics', tests: golden },
  {
    reason: 'a fake has no weights, so equal rows of the head do not make ties',
    tests: ['outputs: the arg-max is the lowest token among equal logits, and the runner-up is as large'],
  },
  {
    reason: 'a fake needs two tokens to choose from',
    tests: ['outputs: in a vocabulary of one token its logit has no runner-up'],
  },
  {
    reason: 'a fake reads the whole context, whatever its plan says',
    tests: [
      'windows: K/V before the windows of all layers may be anything',
      'windows: entries of a block table before the windows of all layers may name any block',
    ],
  },
  { reason: 'a fake takes any block size', tests: ['load: sizes that no backend has are refused'] },
];

const factory = createFakeBackend();
testBackend(factory, { name: 'the FakeBackend', liveBytes: factory.liveBytes, skip });

const exact = createFakeBackend({ fastKvDeviates: false });
testBackend(exact, { name: 'the FakeBackend whose fast schedule is canonical', liveBytes: exact.liveBytes, skip });

/** What each defect must make fail, and how the failure reads. */
const caught: [Exclude<FakeFault, 'none'>, string[], RegExp][] = [
  [
    'batchDependent',
    [
      'company: sequences that are decoded, verified, rolled back and moved at random never touch one another',
      'isolation: rows in a crowd have the bits of rows alone',
      'isolation: prefill, decode and any chunks give equal bits',
      'isolation: sequences interleaved at random have the bits of sequences alone',
      'limits: a batch may have exactly maxRows rows, in one sequence or in many',
    ],
    /row 0, position \d+: (logits: index 0 is .* \(0x[0-9a-f]{8}\), expected .* \(0x[0-9a-f]{8}\)|arg-max)/,
  ],
  [
    'rowDependent',
    [
      'isolation: rows in a crowd have the bits of rows alone',
      'isolation: the order of sequences in a batch changes no bit',
    ],
    /at place 1, row 0/,
  ],
  [
    'windowDependent',
    [
      'isolation: prefill, decode and any chunks give equal bits',
      'isolation: a window may start and end anywhere, also where later positions are filled',
      'overwrite: the canonical pass of a window may be repeated',
    ],
    /logits: index/,
  ],
  [
    'dependsOnFast',
    [
      'schedules: both batches of a step at once equal each alone',
      'schedules: canonical rows never depend on fast traffic',
    ],
    /logits: index/,
  ],
  ['drifts', ['repeat: the same steps run twice give equal bits'], /first run, row 25, position 25/],
  [
    'keepsCandidateKv',
    [
      'company: sequences that are decoded, verified, rolled back and moved at random never touch one another',
      'overwrite: a canonical pass replaces candidate K/V inside a block',
      'overwrite: a canonical pass replaces candidate K/V across blocks',
      'overwrite: wrong candidates inside a block leave no trace',
      'overwrite: wrong candidates across blocks leave no trace',
      'blocks: blocks that other sequences filled are as good as new',
    ],
    /logits?: index/,
  ],
  [
    'ignoresBlockTables',
    [
      'company: sequences that are decoded, verified, rolled back and moved at random never touch one another',
      'isolation: rows in a crowd have the bits of rows alone',
      'isolation: block ids change no bit',
      'limits: all blocks of the pool hold K/V at once',
    ],
    /logits: index/,
  ],
  ['readsAhead', ['isolation: prefill, decode and any chunks give equal bits'], /logits: index/],
  ['leaks', ['lifecycle: closed backends hold no memory'], /live bytes after 1 backends/],
  ['leaksOnFailedLoad', ['load: a load that fails holds no memory'], /live bytes after all failures/],
  [
    'writesRefusedBatches',
    [
      'refusal: a canonical batch that breaks a rule is refused and writes nothing',
      'refusal: a fast batch that breaks a rule is refused and writes nothing',
    ],
    /what follows the refused batches/,
  ],
  ['neverBusy', ['lifecycle: a second call while one is in flight is refused and does not disturb it'], /was accepted/],
  ['neverClosed', ['lifecycle: a closed backend refuses calls and may be closed again'], /was accepted/],
  [
    'closesEarly',
    ['lifecycle: close waits for the call in flight, which ends as if nothing was closed'],
    /close,forward, expected forward,close/,
  ],
  ['claimsFastIsCanonical', ['schedules: the fast schedule is what the backend says it is'], /canonical after fast/],
  ['highestTie', ['repeat: the same steps run twice give equal bits'], /arg-max: \d+, expected \d+/],
  ['runnerUpBelowTies', ['repeat: the same steps run twice give equal bits'], /runner-up logit: index 0/],
  [
    'runnerUpNeedsLogits',
    ['outputs: a row answers what it was asked, whatever the others ask'],
    /arg-max of all rows, row 0, position 0: its runner-up logit/,
  ],
  ['fastIsNoise', ['schedules: the fast schedule is what the backend says it is'], /allowed is a mean KL/],
  ['aliasesLastBlock', ['limits: all blocks of the pool hold K/V at once'], /logits: index/],
  ['blocksEventLoop', ['lifecycle: the event loop turns while a step runs'], /timers waited/],
  ['ignoresAbort', ['load: an aborted load is given up'], /was accepted, expected STET_ERR_ABORTED/],
];

describe('the conformance suite', () => {
  it.each(caught)('fails a backend with the defect %s', async (fault, names, message) => {
    for (const name of names) {
      const faulty = createFakeBackend({ fault });
      const suite = conformanceSuite(faulty, conformanceModels()[0]!, faulty.liveBytes);
      const testCase = conformanceCases.find((each) => caseName(each) === name);
      expect(testCase, name).toBeDefined();
      const failure = await runCase(testCase!, suite).catch((error: unknown) => error);
      expect(failure, name).toMatchObject({ name: 'ConformanceFailure' });
      expect((failure as Error).message).toContain(`${name} [grouped]`);
      expect((failure as Error).message).toMatch(message);
    }
  });
});
