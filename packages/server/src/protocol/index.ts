export type { GenerateEvent, GenerateRequest } from '@stet/engine';
export * from './client-frames.js';
export * from './constants.js';
export * from './error-frame.js';
export { type ParsedFrame, parseClientFrame, type RefusedFrame } from './parse.js';
export * from './server-frames.js';
export * from './subprotocols.js';
