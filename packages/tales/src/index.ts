/** The name under which the embedded model is known: `--model tales`. */
export const talesName = 'tales';

/** The folder of the embedded model, in Hugging Face layout; ends with a slash. The same from sources and from dist. */
export const talesFolder = new URL('../model/', import.meta.url);
