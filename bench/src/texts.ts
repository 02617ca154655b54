import { readFileSync } from 'node:fs';

/** Kinds of text that a model is measured on, in texts/NAME.txt. */
export const textNames = ['prose', 'tale', 'code', 'dialogue'] as const;
export type TextName = (typeof textNames)[number];

export function readText(name: TextName): string {
  return readFileSync(new URL(`../texts/${name}.txt`, import.meta.url), 'utf8');
}
