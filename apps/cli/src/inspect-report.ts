import { type Op, type Plan, type WeightFormat, weightFormats } from '@stet/backend';
import { portableFingerprint } from '@stet/engine';
import {
  type FormatUse,
  type GenerationDefaults,
  type LoadedModel,
  memoryNeeded,
  type RopeConfig,
  type Storage,
} from '@stet/model';
import { findPacked, type PackedFile } from './packed-cache.js';

/** What `stet inspect --json` prints. */
export interface InspectReport {
  readonly name: string;
  readonly architecture: string;
  readonly parameterCount: number;
  readonly shape: ShapeReport;
  readonly rope: RopeConfig;
  readonly storage: Storage;
  /** Absent where it cannot be used; `tokenizerProblem` says why. */
  readonly tokenizer?: TokenizerReport;
  readonly tokenizerProblem?: string;
  /** Each variant of the chat template by its name; empty where the model has none. */
  readonly chatTemplates: Readonly<Record<string, string>>;
  readonly generationDefaults: GenerationDefaults;
  readonly digest: string;
  /** As it is loaded without a format. */
  readonly auto: AutoReport;
  /** With all its matrices in one format. */
  readonly formats: readonly FormatReport[];
}

export interface ShapeReport {
  readonly layerCount: number;
  readonly hiddenSize: number;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly feedForwardSize: number;
  readonly vocabSize: number;
  readonly contextLength: number;
  /** `tied`: the embedding is the head too. */
  readonly head: 'tied' | 'own';
  /** Layers with a sliding window, by its size in positions; the others see the whole context. */
  readonly windows: readonly { readonly windowSize: number; readonly layerCount: number }[];
  /** Layers that do not rotate queries and keys. */
  readonly layersWithoutRope: number;
}

export interface TokenizerReport {
  readonly kind: string;
  readonly vocabSize: number;
  readonly bos?: SpecialToken;
  /** Any of them ends a text. */
  readonly eos: readonly SpecialToken[];
}

export interface SpecialToken {
  readonly id: number;
  readonly text: string;
}

export interface FormatReport extends LoadReport {
  readonly format: WeightFormat;
}

export interface AutoReport extends LoadReport {
  /** Which formats its matrices have, and why. */
  readonly uses: readonly FormatUse[];
}

export interface LoadReport {
  readonly weightBytes: number;
  readonly kvBytesPerPosition: number;
  /** The file of packed weights that the CPU backend would read. */
  readonly packed?: PackedFile;
  /** On every backend of portable numerics. */
  readonly fingerprint: string;
}

/** All that a model that was loaded with the format `auto` says about itself; reads no weights. */
export function inspectModel(model: LoadedModel): InspectReport {
  const { name, architecture, parameterCount, plan, rope, storage, tokenizer, chatTemplate, digest } = model;
  const { generationDefaults } = model;
  return {
    ...{ name, architecture, parameterCount, rope, storage, generationDefaults, digest },
    shape: shapeOf(plan),
    ...(tokenizer && { tokenizer: tokenizerReport(model, tokenizer) }),
    chatTemplates: Object.fromEntries(chatTemplate?.sources ?? []),
    auto: { uses: model.formats, ...memoryNeeded(plan), fingerprint: portableFingerprint({ digest, plan }) },
    formats: weightFormats.map((format) => ({
      format,
      ...memoryNeeded(plan, format),
      fingerprint: portableFingerprint({ digest, plan: withFormat(plan, format) }),
    })),
  };
}

/** The report of a model with the files of packed weights that its loads would read. */
export async function withPacked(report: InspectReport, { digest, plan }: LoadedModel): Promise<InspectReport> {
  const add = async <Load extends LoadReport>(load: Load, of: Plan): Promise<Load> => {
    const packed = await findPacked(digest, of);
    return packed ? { ...load, packed } : load;
  };
  return {
    ...report,
    auto: await add(report.auto, plan),
    formats: await Promise.all(report.formats.map((load) => add(load, withFormat(plan, load.format)))),
  };
}

function tokenizerReport(
  { bosId, eosIds }: LoadedModel,
  tokenizer: NonNullable<LoadedModel['tokenizer']>,
): TokenizerReport {
  const token = (id: number) => ({ id, text: tokenizer.decode([id], { skipSpecialTokens: false }) });
  const { kind, vocabSize } = tokenizer;
  return { kind, vocabSize, ...(bosId !== undefined && { bos: token(bosId) }), eos: eosIds.map(token) };
}

function shapeOf(plan: Plan): ShapeReport {
  const { layerCount, kvHeadCount, headSize, vocabSize, contextLength } = plan;
  const [embed] = opsOf(plan, 'embed');
  const [logits] = opsOf(plan, 'logits');
  const attention = opsOf(plan, 'attention');
  const [swiglu] = opsOf(plan, 'swiglu');
  const width = (buffer: number | undefined) => (buffer === undefined ? 0 : plan.buffers[buffer]!.width);
  const layersByWindow = new Map<number, number>();
  for (const { windowSize } of attention) {
    if (windowSize !== undefined) layersByWindow.set(windowSize, (layersByWindow.get(windowSize) ?? 0) + 1);
  }
  return {
    ...{ layerCount, kvHeadCount, headSize, vocabSize, contextLength },
    hiddenSize: width(embed?.output),
    headCount: attention[0]?.headCount ?? 0,
    feedForwardSize: width(swiglu?.gate),
    head: embed && logits && embed.table === logits.weight ? 'tied' : 'own',
    windows: [...layersByWindow].map(([windowSize, count]) => ({ windowSize, layerCount: count })),
    // A layer rotates its queries and its keys.
    layersWithoutRope: layerCount - opsOf(plan, 'rope').length / 2,
  };
}

function opsOf<Kind extends Op['kind']>(plan: Plan, kind: Kind): Extract<Op, { kind: Kind }>[] {
  return plan.ops.filter((op): op is Extract<Op, { kind: Kind }> => op.kind === kind);
}

/** The same plan with its matrices in another format, as the loader would have built it. */
function withFormat(plan: Plan, format: WeightFormat): Plan {
  return { ...plan, weights: plan.weights.map((spec) => (spec.kind === 'matrix' ? { ...spec, format } : spec)) };
}
