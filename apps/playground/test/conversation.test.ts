import { describe, expect, it } from 'vitest';
import { canAnswer, promptAfter, type Turn, withoutLastAnswer } from '../src/chat/conversation.js';

const TURNS: readonly Turn[] = [
  { from: 'user', text: 'Hello' },
  { from: 'model', text: ' there.' },
  { from: 'user', text: ' And you?' },
];

describe('a conversation', () => {
  it('is messages where the model takes them, with the system prompt first if there is one', () => {
    const messages = [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: ' there.' },
      { role: 'user', content: ' And you?' },
    ];
    expect(promptAfter('chat', TURNS, ' \n')).toEqual({ messages });
    expect(promptAfter('chat', TURNS, ' Be brief. ')).toEqual({
      messages: [{ role: 'system', content: 'Be brief.' }, ...messages],
    });
  });

  it('is one text where the model goes on with texts, every character of it', () => {
    expect(promptAfter('text', TURNS, 'ignored')).toEqual({ prompt: 'Hello there. And you?' });
  });

  it('can be answered after a message, and a text at any time but when it is empty', () => {
    expect(canAnswer('chat', TURNS)).toBe(true);
    expect(canAnswer('chat', TURNS.slice(0, 2))).toBe(false);
    expect(canAnswer('chat', [])).toBe(false);
    expect(canAnswer('text', TURNS.slice(0, 2))).toBe(true);
    expect(canAnswer('text', [])).toBe(false);
  });

  it('loses its last answer, and no more, to have it once more', () => {
    expect(withoutLastAnswer(TURNS)).toEqual(TURNS);
    expect(withoutLastAnswer(TURNS.slice(0, 2))).toEqual(TURNS.slice(0, 1));
  });
});
