import { assertNever } from '@stet/backend';
import { addResidual, blockInput, type LayerContext } from './layer-context.js';

/** hidden += attention(hidden), with the norms of queries and keys, the rotation and the window of the layer. */
export function attentionBlock(context: LayerContext, layer: number): void {
  const { config, builder, buffers } = context;
  const { headCount, kvHeadCount, headSize, hiddenSize, biases } = config;
  const { query, key, value, attended, residual } = buffers;
  const prefix = `model.layers.${layer}`;
  const attention = `${prefix}.self_attn`;
  const [queryWidth, keyWidth] = [headCount * headSize, kvHeadCount * headSize];
  const input = blockInput(context, `${prefix}.input_layernorm.weight`);
  builder.linear(`${attention}.q_proj`, [queryWidth, hiddenSize], biases.queryKeyValue, input, query);
  builder.linear(`${attention}.k_proj`, [keyWidth, hiddenSize], biases.queryKeyValue, input, key);
  builder.linear(`${attention}.v_proj`, [keyWidth, hiddenSize], biases.queryKeyValue, input, value);
  normQueryAndKey(context, attention);
  rotateQueryAndKey(context, layer);
  builder.op({ kind: 'kvWrite', layer, key, value });
  builder.op({ kind: 'attention', layer, query, headCount, ...windowOf(context, layer), output: attended });
  builder.linear(`${attention}.o_proj`, [hiddenSize, queryWidth], biases.attentionOutput, attended, residual);
  addResidual(context, `${prefix}.post_attention_layernorm.weight`);
}

function normQueryAndKey({ config, builder, buffers: { query, key } }: LayerContext, attention: string): void {
  const { headCount, kvHeadCount, headSize, queryKeyNorms } = config;
  const epsilon = config.normEpsilon;
  const norms = [
    { name: `${attention}.q_norm.weight`, buffer: query, groupCount: headCount },
    { name: `${attention}.k_norm.weight`, buffer: key, groupCount: kvHeadCount },
  ];
  for (const { name, buffer, groupCount } of norms) {
    const inPlace = { kind: 'rmsNorm', input: buffer, epsilon, output: buffer } as const;
    switch (queryKeyNorms) {
      case 'none':
        break;
      case 'heads':
        builder.op({ ...inPlace, weight: builder.vector(name, headSize, 'norm'), groupCount });
        break;
      case 'whole':
        builder.op({ ...inPlace, weight: builder.vector(name, groupCount * headSize, 'norm') });
        break;
      default:
        assertNever(queryKeyNorms);
    }
  }
}

function rotateQueryAndKey({ config, builder, buffers, rope }: LayerContext, layer: number): void {
  const { positions } = config.layers[layer]!;
  switch (positions) {
    case 'rope':
      builder.op({ kind: 'rope', buffer: buffers.query, headCount: config.headCount, rope });
      builder.op({ kind: 'rope', buffer: buffers.key, headCount: config.kvHeadCount, rope });
      break;
    case 'none':
      break;
    default:
      assertNever(positions);
  }
}

/** A window that is never shorter than the context changes nothing. */
function windowOf({ config }: LayerContext, layer: number): { windowSize?: number } {
  const { windowSize } = config.layers[layer]!;
  return windowSize === undefined || windowSize >= config.contextLength ? {} : { windowSize };
}
