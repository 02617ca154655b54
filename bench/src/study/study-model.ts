import { NUMERICS_ID } from '@stet/backend';
import { fingerprint } from '@stet/model';
import { loadModelPath } from '@stet/model/node';
import { SAMPLER_VERSION } from '@stet/scheduler';
import { readText, type TextName, textNames } from '../texts.js';

/** What workloads need to know of a model. */
export interface StudyModel {
  readonly name: string;
  readonly fingerprint: string;
  readonly contextLength: number;
  readonly vocabSize: number;
  readonly parameterCount: number;
  /** The texts of bench/texts in the model's tokens. */
  readonly texts: ReadonlyMap<TextName, readonly number[]>;
  encode(text: string): number[];
}

/** Reads a model for its tokens and sizes; its weights are not read. */
export async function readStudyModel(path: string): Promise<StudyModel> {
  const model = await loadModelPath(path);
  const { tokenizer, digest, plan } = model;
  await model.close();
  if (!tokenizer) throw new Error(`the model ${path} has no tokenizer, which a study needs for its prompts`);
  const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });
  return {
    name: model.name,
    fingerprint: fingerprint({ digest, plan, numericsId: NUMERICS_ID, samplerVersion: SAMPLER_VERSION }),
    contextLength: model.contextLength,
    vocabSize: plan.vocabSize,
    parameterCount: model.parameterCount,
    texts: new Map(textNames.map((name) => [name, encode(readText(name))])),
    encode,
  };
}
