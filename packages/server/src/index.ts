export { type ApiKey, newApiKey, parseKeyFile } from './auth/keys.js';
export type { KeyLimits } from './auth/principal.js';
export { defaultServerLimits, type ServerLimits } from './limits.js';
export type { Logger } from './logger.js';
export type { Calls, OpenAiCalls } from './openai/calls.js';
export { createServer, type ServerOptions, type ServerStats, type StetServer } from './server.js';
