import { readFileSync } from 'node:fs';
import { benchFolder } from './folders.js';

/** Kinds of text that a model is measured on, in texts/NAME.txt. */
export const textNames = ['prose', 'tale', 'code', 'dialogue'] as const;
export type TextName = (typeof textNames)[number];

export function readText(name: TextName): string {
  return readFileSync(new URL(`texts/${name}.txt`, benchFolder), 'utf8');
}
