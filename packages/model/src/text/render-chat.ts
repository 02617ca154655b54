import { StetError } from '@stet/backend';
import type { ChatTemplate, ChatTemplateInput } from './chat-template.js';

/** Renders messages with a model's template; throws `STET_ERR_BAD_CHAT_TEMPLATE` where the model has none. */
export function renderChat(
  model: { readonly name: string; readonly chatTemplate?: ChatTemplate },
  input: ChatTemplateInput,
): string {
  if (!model.chatTemplate) {
    throw new StetError(
      'STET_ERR_BAD_CHAT_TEMPLATE',
      `the model ${model.name} has no chat template: it was not made for messages`,
    );
  }
  return model.chatTemplate.render(input);
}
