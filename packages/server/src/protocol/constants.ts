/** The subprotocol of `GET /v1/stream`; a later incompatible version gets another name. */
export const SUBPROTOCOL = 'stet.v1';
export type Subprotocol = typeof SUBPROTOCOL;

/** A ticket of `POST /v1/tickets` is offered as one more subprotocol that begins so; the server never answers it. */
export const TICKET_PREFIX = 'stet.ticket.';

export const STREAM_PATH = '/v1/stream';

/** The port a server takes and clients assume when nobody says otherwise. */
export const DEFAULT_PORT = 8642;

/** Why a socket is closed, as docs/PROTOCOL.md lists. */
export const closeCodes = {
  /** The client is done. */
  done: 1000,
  /** The server goes away; nothing of this socket was cut off. */
  goingAway: 1001,
  /** A frame breaks the WebSocket protocol itself. */
  protocolError: 1002,
  /** A text frame is not UTF-8. */
  invalidUtf8: 1007,
  /** The key of the socket was revoked. */
  unauthorized: 1008,
  /** A frame is larger than {@link protocolLimits.maxFrameBytes}. */
  frameTooLarge: 1009,
  /** The server goes away and cut off streams that were still running; send them again later. */
  restart: 1012,
  /** The client does not read fast enough. */
  overloaded: 1013,
  /** None of the offered subprotocols is {@link SUBPROTOCOL}. */
  unsupportedSubprotocol: 4400,
} as const;

/** Bounds of a client frame. The engine's own limits, such as the context length, may be lower. */
export const protocolLimits = {
  maxFrameBytes: 1024 * 1024,
  maxIdLength: 128,
  maxMessages: 1024,
  maxStopStrings: 8,
  maxStopCharacters: 256,
  maxLogitBiases: 1024,
  maxTopLogprobs: 20,
  /** Output tokens that a stream may be given credit for ahead of what was sent. */
  maxCreditTokens: 1_000_000,
  maxHandleLength: 64,
  /** Unknown fields named in one answer; the rest is counted. */
  maxNamedFields: 16,
  /** Characters of an unknown field's name, or of an unknown type, that an answer repeats. */
  maxQuotedCharacters: 64,
  /** Characters of what a schema has to say about a field. */
  maxExpectationCharacters: 200,
} as const;
