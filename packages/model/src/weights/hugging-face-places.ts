import type { DecoderConfig } from '../config/decoder-config.js';
import { ownPlaces } from './stored-rows.js';
import type { TensorRows, WeightPlaces } from './stored-tensor.js';

/** Where the weights of a checkpoint in Hugging Face layout are: under their own names, but for Phi-3. */
export function huggingFacePlaces(config: DecoderConfig): WeightPlaces {
  return config.family === 'phi3' ? fusedPlaces(config) : ownPlaces;
}

/** Queries, keys and values in the rows of one tensor, gate and up in those of another, in this order. */
function fusedPlaces({ headCount, kvHeadCount, headSize, intermediateSize }: DecoderConfig): WeightPlaces {
  const [queryRows, keyRows] = [headCount * headSize, kvHeadCount * headSize];
  const attention = { tensor: 'self_attn.qkv_proj', tensorRows: queryRows + 2 * keyRows };
  const feedForward = { tensor: 'mlp.gate_up_proj', tensorRows: 2 * intermediateSize };
  const parts = new Map([
    ['self_attn.q_proj', { ...attention, firstRow: 0 }],
    ['self_attn.k_proj', { ...attention, firstRow: queryRows }],
    ['self_attn.v_proj', { ...attention, firstRow: queryRows + keyRows }],
    ['mlp.gate_proj', { ...feedForward, firstRow: 0 }],
    ['mlp.up_proj', { ...feedForward, firstRow: intermediateSize }],
  ]);
  return (weight): TensorRows => {
    const [, layer, module = '', kind] = /^(model\.layers\.\d+)\.(.+)\.(weight|bias)$/.exec(weight) ?? [];
    const part = parts.get(module);
    if (!part) return { tensor: weight };
    const { tensor, firstRow, tensorRows } = part;
    return { tensor: `${layer}.${tensor}.${kind}`, slice: { firstRow, tensorRows } };
  };
}
