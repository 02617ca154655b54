export { type ApiKey, newApiKey, parseKeyFile } from './auth/keys.js';
export type { KeyLimits } from './auth/principal.js';
export { isLoopbackHost } from './hosts.js';
export { defaultServerLimits, type ServerLimits, smallest as smallestServerLimit } from './limits.js';
export type { Logger } from './logger.js';
export type { MetricsAccess } from './metrics/metrics-route.js';
export type { Calls, OpenAiCalls } from './openai/calls.js';
export { createServer, type ServerOptions, type ServerStats, type StetServer } from './server.js';
