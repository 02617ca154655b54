export * from './block-pool.js';
export * from './block-table.js';
export * from './kv-cache.js';
export type { Provenance } from './prefix-tree.js';
