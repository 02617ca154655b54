export * from './bits.js';
export * from './centre-q4.js';
export * from './constants.js';
export * from './encode.js';
export * from './encode-q4.js';
export * from './encode-q8.js';
export * from './float64.js';
export * from './rope-tables.js';
