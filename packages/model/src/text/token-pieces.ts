import { StetError } from '@stet/backend';
import { quote } from '../files/quote.js';
import { byteLevelBytes, byteLevelTable } from './byte-level.js';

/**
 * What each token adds to a text, in bytes. Concatenated and read as UTF-8 they are the text, but for leading spaces:
 * a tokenizer that puts a space in front of every text takes it away again.
 */
export interface TokenPieces {
  /** Bytes of a token, undefined for an id that no token has. The array is the caller's to keep. */
  bytes(id: number, place: TokenPlace): Uint8Array | undefined;
  /** Spaces that are taken off the start of the whole text. */
  readonly leadingSpaces: number;
}

/** `first`: nothing but skipped tokens stands before it. */
export type TokenPlace = 'first' | 'inside';

/** The `decoder` of tokenizer.json, checked. */
export type DecoderRule =
  /** Characters stand for bytes (GPT-2). */
  | { readonly kind: 'byteLevel' }
  /**
   * Strings are replaced in each token; `byteFallback`: `<0x0A>` is a byte (Llama 2). A run of such bytes that is not
   * UTF-8 throughout is where streaming must differ from the Rust library: that one makes U+FFFD of every byte of the
   * run, also of whole characters that a stream has long given out. Here only what is wrong is replaced.
   */
  | {
      readonly kind: 'pieces';
      readonly replacements: readonly { readonly from: string; readonly to: string }[];
      readonly byteFallback: 'yes' | 'no';
      readonly leadingSpaces: number;
    }
  /** The mark is a space, and in the first token nothing unless `prepend` is `never` (sentencepiece). */
  | { readonly kind: 'metaspace'; readonly mark: string; readonly prepend: 'always' | 'never' };

export interface PieceTable {
  /** The token's string in the vocabulary, undefined for an id that no token has. */
  tokenOf(id: number): string | undefined;
  /** Added tokens stand in a text as they are written, whatever the decoder. */
  readonly addedIds: ReadonlySet<number>;
}

export function tokenPieces(rule: DecoderRule, table: PieceTable): TokenPieces {
  const encoder = new TextEncoder();
  const byteOf = rule.kind === 'byteLevel' ? byteLevelTable() : new Map<string, number>();
  return {
    leadingSpaces: rule.kind === 'pieces' ? rule.leadingSpaces : 0,
    bytes: (id, place) => {
      const token = table.tokenOf(id);
      if (token === undefined) return undefined;
      switch (rule.kind) {
        case 'byteLevel':
          return (table.addedIds.has(id) ? undefined : byteLevelBytes(token, byteOf)) ?? encoder.encode(token);
        case 'pieces':
          return pieceBytes(token, rule, encoder);
        case 'metaspace':
          return encoder.encode(token.replaceAll(rule.mark, place === 'first' && rule.prepend === 'always' ? '' : ' '));
      }
    },
  };
}

function pieceBytes(token: string, rule: DecoderRule & { kind: 'pieces' }, encoder: TextEncoder): Uint8Array {
  let text = token;
  for (const { from, to } of rule.replacements) text = text.replaceAll(from, () => to);
  if (rule.byteFallback === 'yes' && /^<0x[0-9A-Fa-f]{2}>$/.test(text)) {
    return Uint8Array.of(Number.parseInt(text.slice(3, 5), 16));
  }
  return encoder.encode(text);
}

/** Reads the `decoder` of tokenizer.json. Throws `STET_ERR_BAD_TOKENIZER` for one that is not supported. */
export function decoderRule(decoder: unknown): DecoderRule {
  const steps = flattenSteps(decoder);
  const [first] = steps;
  if (steps.length === 1 && first!.type === 'ByteLevel') return { kind: 'byteLevel' };
  if (steps.length === 1 && first!.type === 'Metaspace') {
    const mark = first!.replacement ?? '▁';
    if (typeof mark !== 'string' || mark === '') unsupported(first!);
    // `add_prefix_space` is how older files say it.
    const never = first!.prepend_scheme === 'never' || first!.add_prefix_space === false;
    return { kind: 'metaspace', mark, prepend: never ? 'never' : 'always' };
  }
  return piecesRule(steps);
}

type DecoderStep = Readonly<Record<string, unknown>>;

function piecesRule(steps: readonly DecoderStep[]): DecoderRule {
  const replacements: { from: string; to: string }[] = [];
  let byteFallback: 'yes' | 'no' = 'no';
  let leadingSpaces = 0;
  // Replace comes before ByteFallback, and Strip after Fuse: then it is the whole text that is stripped.
  let stage: 'tokens' | 'bytes' | 'text' = 'tokens';
  for (const step of steps) {
    if (step.type === 'Replace' && stage === 'tokens') replacements.push(replacement(step));
    else if (step.type === 'ByteFallback' && stage === 'tokens') {
      byteFallback = 'yes';
      stage = 'bytes';
    } else if (step.type === 'Fuse') stage = 'text';
    else if (step.type === 'Strip' && stage === 'text') leadingSpaces += strippedSpaces(step);
    else unsupported(step);
  }
  return { kind: 'pieces', replacements, byteFallback, leadingSpaces };
}

function replacement(step: DecoderStep): { from: string; to: string } {
  const from = (step.pattern as { String?: unknown } | null | undefined)?.String;
  if (typeof from !== 'string' || from === '' || typeof step.content !== 'string') unsupported(step);
  return { from, to: step.content };
}

function strippedSpaces(step: DecoderStep): number {
  const { content, start, stop } = step;
  const isCount = Number.isInteger(start) && (start as number) >= 0 && (start as number) <= 16;
  if (content !== ' ' || stop !== 0 || !isCount) unsupported(step);
  return start as number;
}

const MAX_STEPS = 16;

function flattenSteps(decoder: unknown, depth = 0): DecoderStep[] {
  if (typeof decoder !== 'object' || decoder === null) {
    throw new StetError('STET_ERR_BAD_TOKENIZER', 'tokenizer.json has no decoder');
  }
  const step = decoder as DecoderStep;
  if (step.type !== 'Sequence') return [step];
  if (!Array.isArray(step.decoders) || step.decoders.length > MAX_STEPS || depth > 2) unsupported(step);
  return (step.decoders as unknown[]).flatMap((inner) => flattenSteps(inner, depth + 1));
}

function unsupported(step: DecoderStep): never {
  throw new StetError('STET_ERR_BAD_TOKENIZER', `tokenizer.json has a decoder that is not supported: ${quote(step)}`);
}
