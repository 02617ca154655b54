export { type ConnectOptions, connect, type StetClient } from './client.js';
export type { ClientEvent } from './client-stream.js';
export type { OutgoingRequest } from './connection.js';
export { StreamError } from './stream-error.js';
export type { WebSocketConstructor, WebSocketLike } from './web-socket.js';
