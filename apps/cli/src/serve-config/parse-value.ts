import { assertNever } from '@stet/backend';
import type { OptionValue, ServeOption } from './option.js';

/** What a flag or a variable says, or why it cannot be. A list in one text has commas. */
export function parseValue(option: ServeOption, text: string): OptionValue | { readonly problem: string } {
  switch (option.kind) {
    case 'integer': {
      const value = Number(text);
      return /^\d+$/.test(text) && value >= option.min && value <= option.max
        ? value
        : { problem: `It must be an integer ${rangeText(option)}.` };
    }
    case 'choice':
      return option.choices.includes(text) ? text : { problem: `Allowed choices are ${option.choices.join(', ')}.` };
    case 'boolean':
      return parseBoolean(text);
    case 'text':
      return text === '' ? { problem: 'It must not be empty.' } : text;
    case 'list': {
      const items = text.split(',').map((item) => item.trim());
      return items.includes('') ? { problem: 'An item is empty.' } : items;
    }
    default:
      return assertNever(option);
  }
}

export function isProblem(value: OptionValue | { readonly problem: string }): value is { readonly problem: string } {
  return typeof value === 'object' && 'problem' in value;
}

export function rangeText({ min, max }: { readonly min: number; readonly max: number }): string {
  return max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`;
}

function parseBoolean(text: string): boolean | { readonly problem: string } {
  if (text === 'true' || text === '1') return true;
  if (text === 'false' || text === '0') return false;
  return { problem: 'It must be true, false, 1 or 0.' };
}
