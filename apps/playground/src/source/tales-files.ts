import config from '@stet/tales/model/config.json?url';
import generationConfig from '@stet/tales/model/generation_config.json?url';
import weights from '@stet/tales/model/model.safetensors?url';
import specialTokensMap from '@stet/tales/model/special_tokens_map.json?url';
import tokenizer from '@stet/tales/model/tokenizer.json?url';
import tokenizerConfig from '@stet/tales/model/tokenizer_config.json?url';

/** Where this page finds the files of the embedded model: all of them that a model's digest covers. */
export const talesFiles: Readonly<Record<string, string>> = {
  'config.json': config,
  'generation_config.json': generationConfig,
  'model.safetensors': weights,
  'special_tokens_map.json': specialTokensMap,
  'tokenizer.json': tokenizer,
  'tokenizer_config.json': tokenizerConfig,
};

/** Bytes of all of them. */
export function talesBytes(): number {
  return Object.keys(talesFiles).reduce((sum, name) => sum + __TALES_SIZES__[name]!, 0);
}
