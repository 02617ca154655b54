import type { IncomingMessage } from 'node:http';
import { httpError, type JsonResponse } from './responses.js';

/** The JSON of a request's body, or how to refuse it; `lost` where the client is gone and there is nobody to answer. */
export type JsonBody =
  | { readonly kind: 'json'; readonly value: unknown }
  | { readonly kind: 'refused'; readonly response: JsonResponse }
  | { readonly kind: 'lost' };

/**
 * Reads a body of at most `maxBytes`: 415 for what is not plain JSON in UTF-8, 413 for too much, 400 for what does not
 * parse. How long it may take is the HTTP server's matter (408). Never rejects. What is left of a refused body is not read.
 */
export async function readJsonBody(request: IncomingMessage, maxBytes: number): Promise<JsonBody> {
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity') return refused(415, 'the body must be sent without a Content-Encoding');
  if (!isJsonType(request.headers['content-type']))
    return refused(415, 'the body must be JSON in UTF-8; send Content-Type: application/json');
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return tooLarge(maxBytes);
  const read = await readBytes(request, maxBytes);
  switch (read) {
    case 'lost':
      return { kind: 'lost' };
    case 'too large':
      return tooLarge(maxBytes);
    default:
      return parse(read);
  }
}

/** `application/json`, or a type that is built on it, in UTF-8 where it names a charset. */
function isJsonType(header: string | undefined): boolean {
  const [type = '', ...parameters] = (header ?? '').split(';').map((part) => part.trim().toLowerCase());
  if (!/^application\/([\w.-]+\+)?json$/.test(type)) return false;
  return parameters.every((parameter) => !parameter.startsWith('charset=') || /^charset="?utf-?8"?$/.test(parameter));
}

/** By events and not by iteration, which would destroy the connection where it stops early. */
function readBytes(request: IncomingMessage, maxBytes: number): Promise<Buffer | 'lost' | 'too large'> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let byteCount = 0;
    const settle = (outcome: Buffer | 'lost' | 'too large') => {
      request.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
      // An error that comes later must not be nobody's.
      request.on('error', () => {});
      resolve(outcome);
    };
    const onData = (chunk: Buffer) => {
      byteCount += chunk.length;
      if (byteCount > maxBytes) settle('too large');
      else chunks.push(chunk);
    };
    const onEnd = () => settle(Buffer.concat(chunks, byteCount));
    const onClose = () => settle('lost');
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
    if (request.destroyed) settle('lost');
  });
}

function parse(bytes: Buffer): JsonBody {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return refused(400, 'the body is not UTF-8');
  }
  try {
    return { kind: 'json', value: JSON.parse(text) };
  } catch {
    // What the parser says would repeat a piece of the body.
    return refused(400, 'the body is not JSON');
  }
}

function tooLarge(maxBytes: number): JsonBody {
  return refused(413, `the body may have ${maxBytes} bytes`);
}

function refused(status: number, message: string): JsonBody {
  return { kind: 'refused', response: httpError(status, 'STET_ERR_BAD_REQUEST', message) };
}
