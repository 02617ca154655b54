import type { Route } from '../http/router.js';
import type { OpenAiCalls } from './calls.js';
import { type CompletionContext, completionRoute } from './completion-route.js';
import { modelRoutes } from './models-route.js';
import { chatRequestSchema, textRequestSchema } from './request-schemas.js';

/** What clients of OpenAI's API ask for. `createdSeconds`: when the model began to be served, Unix time. */
export function openAiRoutes(engine: OpenAiCalls, context: CompletionContext, createdSeconds: number): Route[] {
  const chatFields = new Set(Object.keys(chatRequestSchema.shape));
  const textFields = new Set(Object.keys(textRequestSchema.shape));
  return [
    ...modelRoutes(context.model, createdSeconds),
    completionRoute('/v1/chat/completions', engine.chat.completions, chatFields, context),
    completionRoute('/v1/completions', engine.completions, textFields, context),
  ];
}
