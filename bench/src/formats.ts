import { formatsOf, type WeightFormat, weightFormats } from '@stet/backend';
import type { FormatOption } from '@stet/model';
import { loadModelPath } from '@stet/model/node';

/** A way to load a model. */
export interface FormatCase {
  /** `bf16`, or `q4+q8` where the file decides for each matrix. */
  readonly title: string;
  readonly format: FormatOption;
}

export interface FormatCases {
  readonly all: readonly FormatCase[];
  /** How the model is loaded when nobody asks for a format: one of them. */
  readonly own: FormatCase;
}

/** Every format for all matrices, and the mix that suits the files, where it is one. */
export async function formatCases(path: string): Promise<FormatCases> {
  const model = await loadModelPath(path, { tokenizer: 'none' });
  await model.close();
  return casesOf(formatsOf(model.plan));
}

/** `own`: the formats of the plan that suits the files. */
export function casesOf(own: readonly WeightFormat[]): FormatCases {
  const plain = weightFormats.map((format): FormatCase => ({ title: format, format }));
  if (own.length === 1) return { all: plain, own: plain.find(({ format }) => format === own[0])! };
  // The fewest bits first: most matrices have them.
  const mixed: FormatCase = {
    title: weightFormats
      .filter((format) => own.includes(format))
      .reverse()
      .join('+'),
    format: 'auto',
  };
  return { all: [...plain, mixed], own: mixed };
}
