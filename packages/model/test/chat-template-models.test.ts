import { type ChatTemplateInput, createChatTemplate } from '@stet/model';
import { describe, expect, it } from 'vitest';
import vectors from './vectors/chat-templates.json' with { type: 'json' };

const conversations = vectors.conversations as unknown as Record<string, ChatTemplateInput>;

interface Case {
  readonly conversation: string;
  readonly text?: string;
  readonly refused?: string;
}

describe('the chat template of a real model', () => {
  const models = vectors.models as readonly {
    model: string;
    bos?: string;
    eos: string;
    template: string;
    cases: Case[];
  }[];

  it.each(models)('$model renders as jinja2 renders it', ({ template, bos, eos, cases }) => {
    const tokens = { bos_token: bos, eos_token: eos, pad_token: undefined, unk_token: undefined };
    const chat = createChatTemplate(new Map([['default', template]]), tokens);
    expect(cases.length).toBeGreaterThanOrEqual(3);
    for (const { conversation, text, refused } of cases) {
      const render = (): string => chat.render({ ...conversations[conversation]!, now: new Date(vectors.now) });
      if (refused === undefined) expect(render(), conversation).toBe(text);
      else expect(render, conversation).toThrow(refused);
    }
  });
});
