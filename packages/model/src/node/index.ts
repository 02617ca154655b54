export { openFolder } from './folder-source.js';
export { loadModelFolder } from './load-model-folder.js';
export { loadModelPath } from './load-model-path.js';
export { nodeHasher } from './node-hasher.js';
