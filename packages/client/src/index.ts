export { type ConnectOptions, connect, type RequestOptions, type StetClient } from './client.js';
export type { ClientEvent } from './client-stream.js';
export type { OutgoingRequest } from './connection.js';
export type { ConnectionState } from './link.js';
export type { ReconnectOptions } from './reconnect-policy.js';
export { StreamError } from './stream-error.js';
export type { WebSocketConstructor, WebSocketLike } from './web-socket.js';
