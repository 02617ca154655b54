import { isStetError, StetError } from '@stet/backend';
import { type Admission, admissionError } from '../auth/admission.js';
import { cacheScopeOf } from '../auth/principal.js';
import { readJsonBody } from '../http/body.js';
import { httpError, type JsonResponse } from '../http/responses.js';
import type { HttpExchange, Route } from '../http/router.js';
import { type SseLimits, SseWriter } from '../http/sse.js';
import type { Logger } from '../logger.js';
import { type Calls, isStream } from './calls.js';
import { CLIENT_GONE, errorResponse } from './errors.js';
import type { Runs } from './runs.js';

export interface CompletionLimits extends SseLimits {
  readonly maxBodyBytes: number;
}

export interface CompletionContext {
  /** The one that is served. */
  readonly model: string;
  readonly admission: Admission;
  readonly runs: Runs;
  readonly limits: CompletionLimits;
  readonly logger: Logger;
}

/** The last event of a stream that ended as it should; one that failed has an error in its place. */
const DONE = '[DONE]';

/** One endpoint of OpenAI's API: `create` with the request's body, answered as JSON or as server-sent events. */
export function completionRoute<Params extends object>(
  path: string,
  calls: Calls<Params>,
  /** Names of the fields that it knows, for `param` of an error. */
  fields: ReadonlySet<string>,
  context: CompletionContext,
): Route {
  return {
    method: 'POST',
    path,
    access: 'keyed',
    async handle(exchange) {
      const read = await readJsonBody(exchange.request, context.limits.maxBodyBytes);
      if (read.kind === 'lost') return undefined;
      if (read.kind === 'refused') return read.response;
      const { value } = read;
      if (!isObject(value)) return httpError(400, 'STET_ERR_BAD_REQUEST', 'the body must be a JSON object');
      try {
        checkModel(value.model, context.model);
        return await admit(exchange, value, calls, context);
      } catch (error) {
        if (!isStetError(error)) throw error;
        return failure(exchange, error, fields, context);
      }
    },
  };
}

/** The body with a place for what it asks for, for as long as it runs. What it holds is checked by the engine. */
async function admit<Params extends object>(
  exchange: HttpExchange,
  body: Readonly<Record<string, unknown>>,
  calls: Calls<Params>,
  { admission, runs, limits, logger }: CompletionContext,
): Promise<JsonResponse | undefined> {
  const signal = runs.begin(exchange);
  const place = admission.admitStream(exchange.principal, choiceCount(body));
  try {
    if (place.kind === 'refused') return admissionError(place);
    const answer = await calls.create(body as Params, { signal, ...cacheScopeOf(exchange.principal) });
    if (!isStream(answer)) return { status: 200, body: answer };
    await sendChunks(exchange, answer, signal, limits, logger);
    return undefined;
  } catch (error) {
    throw reasonOf(error, signal);
  } finally {
    if (place.kind === 'admitted') place.release();
  }
}

/** One event for each chunk, read as fast as the client reads. The head is sent, so a failure is an event too. */
async function sendChunks(
  { response, requestId }: HttpExchange,
  chunks: AsyncIterable<object>,
  signal: AbortSignal,
  limits: SseLimits,
  logger: Logger,
): Promise<void> {
  const events = new SseWriter(response, limits);
  try {
    // Leaving the loop, as `throwIfAborted` does, cancels the request.
    for await (const chunk of chunks) {
      await events.send(JSON.stringify(chunk));
      signal.throwIfAborted();
    }
    await events.end(DONE);
  } catch (error) {
    const reason = reasonOf(error, signal);
    if (!isStetError(reason)) logger.error({ requestId, err: reason }, 'a stream failed unexpectedly');
    const reported = isStetError(reason)
      ? reason
      : new StetError('STET_ERR_INTERNAL', `request ${requestId} failed unexpectedly`);
    await events.end(JSON.stringify(errorResponse(reported).body));
  }
}

/** Why a run was aborted says more than that it was. */
function reasonOf(error: unknown, signal: AbortSignal): unknown {
  return signal.aborted ? signal.reason : error;
}

function failure(
  { requestId, principal }: HttpExchange,
  error: StetError,
  fields: ReadonlySet<string>,
  { logger }: CompletionContext,
): JsonResponse | undefined {
  const response = errorResponse(error, fields);
  logger.info({ requestId, key: principal.name, code: error.code, status: response.status }, 'a request was refused');
  return response.status === CLIENT_GONE ? undefined : response;
}

function checkModel(asked: unknown, served: string): void {
  if (typeof asked === 'string' && asked !== served)
    throw new StetError('STET_ERR_UNKNOWN_MODEL', `model: this server serves "${served}"`);
}

/** Streams that the request takes: `n` for each prompt. A number that the engine will refuse counts as one. */
function choiceCount({ n, prompt }: Readonly<Record<string, unknown>>): number {
  const perPrompt = typeof n === 'number' && Number.isSafeInteger(n) && n >= 1 ? n : 1;
  return perPrompt * (Array.isArray(prompt) && typeof prompt[0] !== 'number' ? Math.max(1, prompt.length) : 1);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
