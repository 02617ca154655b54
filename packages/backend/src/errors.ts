/**
 * Every error of the world that Stet raises, with the sentence that says what to do about it.
 * Our own mistakes are {@link assert} failures instead.
 */
export const errorCodes = {
  // backends
  STET_ERR_BACKEND_UNAVAILABLE: 'Run `stet doctor`: it lists the backends of this machine and why one is missing.',
  STET_ERR_BACKEND_CLOSED: 'Create a new backend; a closed one cannot be used again.',
  STET_ERR_BACKEND_BUSY: 'Await the previous forward() before the next: one call may be in flight.',
  STET_ERR_BACKEND_FAILED: 'The device failed while it ran; re-create the backend and send the request again.',
  STET_ERR_DEVICE_LOST:
    'The device went away (driver reset, sleep, memory); a backend made anew can go on, and nothing deterministic changes.',
  STET_ERR_CANONICAL_REFUSED:
    'The device did not reproduce the golden vectors; use another backend for deterministic requests.',
  STET_ERR_UNSUPPORTED: 'Choose an option that is listed as supported.',
  STET_ERR_BAD_BATCH: 'The batch breaks a rule of the port; this is a bug of the caller.',
  STET_ERR_BAD_PLAN: 'The plan is inconsistent or has an operation this backend does not know.',
  STET_ERR_BAD_WEIGHTS: 'The weights leave the domain of the numerics (see docs/NUMERICS.md) or do not fit the plan.',
  STET_ERR_OUT_OF_MEMORY: 'Lower the number of K/V blocks or rows, or use a smaller model.',
  // model files
  STET_ERR_MODEL_NOT_FOUND:
    'Give a model folder with config.json, a .gguf file, or the name of the embedded model: tales. `stet pull` fetches one.',
  STET_ERR_BAD_CONFIG: 'Fix the named field of the config.',
  STET_ERR_UNKNOWN_ARCHITECTURE: 'Use a model of one of the architectures that the message lists.',
  STET_ERR_BAD_SAFETENSORS: 'The file is damaged or is not safetensors; fetch it again.',
  STET_ERR_BAD_GGUF: 'The file is damaged or is not a GGUF file that Stet reads; fetch it again.',
  STET_ERR_MISSING_TENSOR: 'The checkpoint lacks a tensor of its architecture; fetch all its files.',
  STET_ERR_BAD_TENSOR: 'The tensor has another shape or type than its architecture asks for.',
  STET_ERR_BAD_TOKENIZER: 'The tokenizer is missing, damaged or of a kind that is not supported.',
  STET_ERR_BAD_CHAT_TEMPLATE: 'The chat template failed or is missing; send a plain prompt instead of messages.',
  STET_ERR_DOWNLOAD:
    'Check the name of the model and the network, then run `stet pull` again: it goes on where it stopped.',
  // requests
  STET_ERR_BAD_REQUEST: 'Fix the named parameter.',
  STET_ERR_CONTEXT_LENGTH: 'Shorten the prompt or ask for fewer tokens.',
  STET_ERR_QUEUE_FULL: 'Wait and send the request again, or raise the queue limit.',
  STET_ERR_KV_CAPACITY: 'Shorten the request or create the engine with more K/V blocks.',
  STET_ERR_ABORTED: 'The request was aborted by its caller.',
  STET_ERR_ENGINE_CLOSED: 'Create a new engine; a closed one takes no requests.',
  // streaming server
  STET_ERR_BAD_FRAME: 'Send one JSON object in a text frame, as docs/PROTOCOL.md says.',
  STET_ERR_UNKNOWN_TYPE: 'Use one of the frame types of docs/PROTOCOL.md.',
  STET_ERR_UNKNOWN_ID: 'No stream of this socket has that id; it may have ended.',
  STET_ERR_DUPLICATE_ID: 'Choose an id that no open stream of this socket has.',
  STET_ERR_UNKNOWN_STREAM:
    'The server no longer has that stream, or not all that is asked of it; send a deterministic request again with seed, after and hash.',
  STET_ERR_RESUME_MISMATCH:
    'The server computes another output for this request: compare the fingerprints, the request and its seed, and start anew.',
  STET_ERR_TAKEN_OVER: 'Another resume of the same stream goes on with it; read it there.',
  STET_ERR_TOO_MANY_STREAMS: 'Wait for a stream of this socket to end, or open another socket.',
  STET_ERR_SLOW_READER: 'Read the socket faster; its unsent bytes passed the limit for too long.',
  STET_ERR_TOO_MANY_SOCKETS: 'Wait for a socket of the server to close, or raise its limit.',
  STET_ERR_RATE_LIMITED: 'Wait as long as Retry-After says, or raise the limits of this key.',
  STET_ERR_UNAUTHORIZED: 'Send a key of the server as `Authorization: Bearer KEY`, or offer an unused ticket.',
  STET_ERR_FORBIDDEN_ORIGIN: 'Add the origin of the page to the allowed origins of the server.',
  STET_ERR_NOT_FOUND: 'Use one of the paths of docs/PROTOCOL.md.',
  STET_ERR_UNKNOWN_MODEL: 'Use the model that GET /v1/models lists.',
  STET_ERR_METHOD_NOT_ALLOWED: 'Use one of the methods that the Allow header lists.',
  STET_ERR_INTERNAL: 'This is a bug of the server; its log says more.',
  STET_ERR_SHUTTING_DOWN: 'The server is going away; connect again later.',
  STET_ERR_CONNECTION: 'The connection was lost or could not be made; check the address and try again.',
  // benchmarks
  STET_ERR_NOT_INSTALLED: 'Install what the message names, then run the same command again.',
  STET_ERR_BAD_RESULTS: 'Give a results.json that `stet bench` wrote, or run the study again.',
} as const;

export type StetErrorCode = keyof typeof errorCodes;

/** An error of the world: `code` is stable, `message` names the cause, and {@link StetError.hint} says what to do. */
export class StetError extends Error {
  override readonly name = 'StetError';
  readonly code: StetErrorCode;

  constructor(code: StetErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }

  get hint(): string {
    return errorCodes[this.code];
  }
}

export function isStetError(error: unknown): error is StetError {
  return error instanceof Error && error.name === 'StetError' && 'code' in error;
}

/** A check of our own reasoning, kept in production. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`);
}

export function assertNever(value: never): never {
  throw new Error(`assertion failed: unexpected value ${JSON.stringify(value)}`);
}
