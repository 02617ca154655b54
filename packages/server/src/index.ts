export { defaultServerLimits, type ServerLimits } from './limits.js';
export type { Logger } from './logger.js';
export { createServer, type ServerOptions, type ServerStats, type StetServer } from './server.js';
