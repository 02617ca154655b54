import { assertNever } from '@stet/backend';
import { derivedSeed } from '../random.js';
import { percentile, rounded } from '../stats.js';
import type { StudyModel } from '../study/study-model.js';
import {
  arxivLengths,
  drawLengths,
  gridLengths,
  type LengthDistribution,
  type PromptedRequest,
  scaleFor,
  shareGptLengths,
} from './lengths.js';
import { readShareGptFile, sampleConversations } from './sharegpt-file.js';
import { promptsFrom } from './trace.js';

export type WorkloadKind = 'sharegpt' | 'arxiv' | 'grid' | 'dataset';

/** Where requests come from. Equal seeds give equal requests. */
export interface Workload {
  readonly kind: WorkloadKind;
  requests(model: StudyModel, count: number, seed: number): readonly PromptedRequest[];
  /** What it is, with all parameters, for a model of this context. */
  describe(model: Pick<StudyModel, 'contextLength'>): string;
}

/** `file`: of `dataset`; it is read when its first requests are asked for. */
export function workloadOf(kind: WorkloadKind, file?: string): Workload {
  switch (kind) {
    case 'sharegpt':
      return drawnWorkload(kind, shareGptLengths);
    case 'arxiv':
      return drawnWorkload(kind, arxivLengths);
    case 'grid':
      return {
        kind,
        requests: ({ contextLength, texts }, count, seed) =>
          promptsFrom(
            texts.values(),
            Array.from({ length: count }, () => gridLengths(contextLength)),
            seed,
          ),
        describe: ({ contextLength }) => {
          const { promptTokens, outputTokens } = gridLengths(contextLength);
          return `${promptTokens} tokens in, ${outputTokens} out`;
        },
      };
    case 'dataset':
      return fileWorkload(file!);
    default:
      return assertNever(kind);
  }
}

function drawnWorkload(kind: WorkloadKind, distribution: LengthDistribution): Workload {
  return {
    kind,
    requests: ({ contextLength, texts }, count, seed) =>
      promptsFrom(
        texts.values(),
        drawLengths(distribution, { count, contextLength, seed: derivedSeed(seed, 0) }),
        derivedSeed(seed, 1),
      ),
    describe: ({ contextLength }) => describeDistribution(distribution, contextLength),
  };
}

function describeDistribution(distribution: LengthDistribution, contextLength: number): string {
  const { title, prompt, output, contextTokens } = distribution;
  const scale = scaleFor(distribution, contextLength);
  const shape = (name: string, { median, sigma }: LengthDistribution['prompt'], by: number) =>
    `${name} lognormal with median ${median} and sigma ${sigma}${by < 1 ? `, scaled by ${rounded(by, 3)}` : ''}`;
  const reason = scale.prompt < 1 ? `, since the context has ${contextLength} tokens and not ${contextTokens}` : '';
  return `${title}: ${shape('prompts', prompt, scale.prompt)}; ${shape('answers', output, scale.output)}${reason}`;
}

function fileWorkload(file: string): Workload {
  let conversations: ReturnType<typeof readShareGptFile> | undefined;
  return {
    kind: 'dataset',
    requests: ({ contextLength, encode }, count, seed) => {
      conversations ??= readShareGptFile(file);
      return sampleConversations(conversations, { count, contextLength, seed, encode });
    },
    describe: ({ contextLength }) =>
      `first turns of the conversations of ${file}, in a seeded order, cut to a context of ${contextLength} tokens`,
  };
}

/** What a workload came to, for the results. */
export type WorkloadFigures = {
  readonly kind: WorkloadKind;
  readonly description: string;
  readonly requests: number;
  readonly promptTokens: LengthFigures;
  readonly outputTokens: LengthFigures;
};

export type LengthFigures = { readonly mean: number; readonly p50: number; readonly p90: number; readonly max: number };

/** Figures of all requests of some traces. */
export function workloadFigures(
  workload: Workload,
  model: StudyModel,
  traces: readonly (readonly PromptedRequest[])[],
): WorkloadFigures {
  const all = traces.flat();
  return {
    kind: workload.kind,
    description: workload.describe(model),
    requests: traces[0]!.length,
    promptTokens: lengthFigures(all.map(({ promptTokens }) => promptTokens.length)),
    outputTokens: lengthFigures(all.map(({ outputTokens }) => outputTokens)),
  };
}

function lengthFigures(lengths: readonly number[]): LengthFigures {
  const mean = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  return {
    mean: rounded(mean, 1),
    p50: percentile(lengths, 0.5),
    p90: percentile(lengths, 0.9),
    max: percentile(lengths, 1),
  };
}

/** As a part of a sentence. */
export function lengthsText({ description, promptTokens, outputTokens }: WorkloadFigures): string {
  return `${description}; drawn: prompts of ${promptTokens.mean} tokens on average (at most ${promptTokens.max}), answers of ${outputTokens.mean} (at most ${outputTokens.max})`;
}
