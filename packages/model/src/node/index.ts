export { openFolder } from './folder-source.js';
export { loadModelFolder } from './load-model-folder.js';
export { nodeHasher } from './node-hasher.js';
