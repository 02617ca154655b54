import { addResidual, blockInput, type LayerContext } from './layer-context.js';

/** hidden += feedForward(hidden): gate and up, their product activated, down. */
export function feedForwardBlock(context: LayerContext, layer: number): void {
  const { config, builder, buffers } = context;
  const { hiddenSize, intermediateSize, biases } = config;
  const { gate, up, activated, residual } = buffers;
  const prefix = `model.layers.${layer}`;
  // Hugging Face's Llama names the norm before the feed-forward block after the attention block that it follows.
  const input = blockInput(context, `${prefix}.post_attention_layernorm.weight`);
  builder.linear(`${prefix}.mlp.gate_proj`, [intermediateSize, hiddenSize], biases.feedForward, input, gate);
  builder.linear(`${prefix}.mlp.up_proj`, [intermediateSize, hiddenSize], biases.feedForward, input, up);
  builder.op({ kind: 'swiglu', gate, up, output: activated });
  builder.linear(`${prefix}.mlp.down_proj`, [hiddenSize, intermediateSize], biases.feedForward, activated, residual);
  addResidual(context, `${prefix}.post_feedforward_layernorm.weight`);
}
