import type { BufferId, RopeId } from '@stet/backend';
import type { DecoderConfig } from '../config/decoder-config.js';
import type { PlanBuilder } from './plan-builder.js';

/** What the two blocks of every layer are built with. */
export interface LayerContext {
  readonly config: DecoderConfig;
  readonly builder: PlanBuilder;
  readonly buffers: Buffers;
  readonly rope: RopeId;
}

export interface Buffers {
  readonly hidden: BufferId;
  /** What a block reads: the hidden state itself, or its norm. */
  readonly input: BufferId;
  readonly query: BufferId;
  readonly key: BufferId;
  readonly value: BufferId;
  readonly attended: BufferId;
  readonly gate: BufferId;
  readonly up: BufferId;
  readonly activated: BufferId;
  /** What a block adds to the hidden state. */
  readonly residual: BufferId;
}

export function declareBuffers(config: DecoderConfig, builder: PlanBuilder): Buffers {
  const queryWidth = config.headCount * config.headSize;
  const keyWidth = config.kvHeadCount * config.headSize;
  const hidden = builder.buffer('hidden', config.hiddenSize);
  return {
    hidden,
    input: config.blockNorms === 'before' ? builder.buffer('normed', config.hiddenSize) : hidden,
    query: builder.buffer('query', queryWidth),
    key: builder.buffer('key', keyWidth),
    value: builder.buffer('value', keyWidth),
    attended: builder.buffer('attended', queryWidth),
    gate: builder.buffer('gate', config.intermediateSize),
    up: builder.buffer('up', config.intermediateSize),
    activated: builder.buffer('activated', config.intermediateSize),
    residual: builder.buffer('residual', config.hiddenSize),
  };
}

/** The input of a block, normed where the family norms before its blocks. */
export function blockInput({ config, builder, buffers }: LayerContext, weight: string): BufferId {
  if (config.blockNorms === 'before') builder.norm(weight, config, buffers.hidden, buffers.input);
  return buffers.input;
}

/** Adds what a block made to the hidden state, normed where the family norms after its blocks. */
export function addResidual({ config, builder, buffers }: LayerContext, weight: string): void {
  const { hidden, residual } = buffers;
  if (config.blockNorms === 'after') builder.norm(weight, config, residual, residual);
  builder.op({ kind: 'add', left: hidden, right: residual, output: hidden });
}
