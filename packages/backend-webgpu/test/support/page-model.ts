import type { WeightFormat } from '@stet/backend';
import { type LoadedModel, loadModel, urlSource } from '@stet/model';
import config from '@stet/tales/model/config.json?url';
import generationConfig from '@stet/tales/model/generation_config.json?url';
import weights from '@stet/tales/model/model.safetensors?url';
import tokenizer from '@stet/tales/model/tokenizer.json?url';
import tokenizerConfig from '@stet/tales/model/tokenizer_config.json?url';

/** The embedded model from the server of the page. */
export function openTales(format: WeightFormat): Promise<LoadedModel> {
  const source = urlSource({
    'config.json': config,
    'generation_config.json': generationConfig,
    'model.safetensors': weights,
    'tokenizer.json': tokenizer,
    'tokenizer_config.json': tokenizerConfig,
  });
  return loadModel(source, { name: 'tales', format });
}
