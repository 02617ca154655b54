import type { ChatMessage } from '@stet/engine';
import type { AnswerRequest } from '../source/answer-source.js';

/** `chat`: messages, for models with a chat template; `text`: one text that goes on. */
export type ConversationKind = 'chat' | 'text';

export interface Turn {
  readonly from: 'user' | 'model';
  readonly text: string;
}

/** What the model is asked with after these turns. Spaces around a system prompt mean nothing. */
export function promptAfter(
  kind: ConversationKind,
  turns: readonly Turn[],
  system: string,
): Pick<AnswerRequest, 'prompt' | 'messages'> {
  if (kind === 'text') return { prompt: turns.map(({ text }) => text).join('') };
  const messages = turns.map(({ from, text }): ChatMessage => {
    return { role: from === 'user' ? 'user' : 'assistant', content: text };
  });
  return { messages: system.trim() === '' ? messages : [{ role: 'system', content: system.trim() }, ...messages] };
}

/** Whether there is something to answer: a message, or any text. */
export function canAnswer(kind: ConversationKind, turns: readonly Turn[]): boolean {
  if (kind === 'chat') return turns.at(-1)?.from === 'user';
  return turns.some(({ text }) => text !== '');
}

/** The turns without the last answer, to have it once more. */
export function withoutLastAnswer(turns: readonly Turn[]): readonly Turn[] {
  return turns.at(-1)?.from === 'model' ? turns.slice(0, -1) : turns;
}
