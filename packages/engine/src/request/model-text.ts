import { StetError } from '@stet/backend';
import { createStreamDecoder, type LoadedModel, renderChat, type Tokenizer } from '@stet/model';
import type { ChatMessage } from '../api.js';
import type { TextDecoder as StreamTextDecoder } from '../text/text-machine.js';

/** Everything the engine asks of a model besides its forward pass. */
export interface ModelText {
  /** Token ids of a prompt, with what the model wants in front. */
  encode(text: string): readonly number[];
  /** Token ids of a conversation, ready for the assistant's turn. */
  encodeMessages(messages: readonly ChatMessage[]): readonly number[];
  readonly decoder: StreamTextDecoder<unknown>;
  /** The bytes that a token spells inside a text, for log-probabilities. */
  tokenBytes(token: number): Uint8Array;
  /** The same as text, with U+FFFD where the bytes are not whole characters. */
  tokenText(token: number): string;
  /** Ids that end the output. */
  readonly endTokens: ReadonlySet<number>;
}

type TextualModel = Pick<LoadedModel, 'name' | 'tokenizer' | 'chatTemplate' | 'eosIds'>;

/** `date` is what a chat template sees as today. */
export function createModelText(model: TextualModel, date: () => Date): ModelText {
  const endTokens = new Set(model.eosIds);
  const { tokenizer } = model;
  if (!tokenizer) return withoutTokenizer(model.name, endTokens);
  return {
    encode: (text) => tokenizer.encode(text, { addSpecialTokens: true }),
    encodeMessages: (messages) => {
      const rendered = renderChat(model, { messages: messages.map((message) => ({ ...message })), now: date() });
      return tokenizer.encode(rendered, { addSpecialTokens: false });
    },
    decoder: createStreamDecoder(tokenizer),
    ...tokenSpelling(tokenizer),
    endTokens,
  };
}

/** Spellings are kept: log-probabilities ask for the same few thousand tokens again and again. */
function tokenSpelling(tokenizer: Tokenizer): Pick<ModelText, 'tokenBytes' | 'tokenText'> {
  const texts = new Map<number, string>();
  const nothing = new Uint8Array(0);
  const tokenBytes = (token: number) => tokenizer.pieces.bytes(token, 'inside') ?? nothing;
  const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
  return {
    tokenBytes,
    tokenText: (token) => {
      let text = texts.get(token);
      if (text === undefined) {
        text = utf8.decode(tokenBytes(token));
        texts.set(token, text);
      }
      return text;
    },
  };
}

/** A model that is used by token ids alone: every output spells the empty text. */
function withoutTokenizer(name: string, endTokens: ReadonlySet<number>): ModelText {
  const refuse = (): never => {
    throw new StetError(
      'STET_ERR_BAD_TOKENIZER',
      `the model ${name} was loaded without a tokenizer: send promptTokens`,
    );
  };
  return {
    encode: refuse,
    encodeMessages: refuse,
    decoder: { after: () => undefined, next: () => ({ state: undefined, text: '' }), flush: () => '' },
    tokenBytes: () => new Uint8Array(0),
    tokenText: () => '',
    endTokens,
  };
}
