import { fileURLToPath } from 'node:url';
import type { OpCase } from '@stet/backend';
import { build, type Rollup } from 'vite';

const source = new URL('../src/', import.meta.url);

/** A change of one place in a source file of the reference. */
export interface Mutation {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** Builds the op runner with a mutation in one file and loads it; throws if the place is not there exactly once. */
export async function loadMutant(mutation: Mutation): Promise<(input: OpCase) => Float32Array> {
  let places = 0;
  const mutated = fileURLToPath(new URL(mutation.file, source));
  const output = await build({
    configFile: false,
    logLevel: 'silent',
    resolve: { conditions: ['@stet/source'] },
    plugins: [
      {
        name: 'mutate',
        enforce: 'pre',
        transform(code, id) {
          if (id !== mutated) return null;
          places = code.split(mutation.from).length - 1;
          return code.replace(mutation.from, () => mutation.to);
        },
      },
    ],
    build: {
      write: false,
      minify: false,
      target: 'es2022',
      lib: { entry: fileURLToPath(new URL('op-runner.ts', source)), formats: ['es'], fileName: 'mutant' },
    },
  });
  if (places !== 1) throw new Error(`${mutation.file} has ${places} places with ${mutation.from}`);
  const [chunk] = (output as Rollup.RollupOutput[])[0].output;
  const url = `data:text/javascript;base64,${Buffer.from(chunk.code).toString('base64')}`;
  const module: { runOp: (input: OpCase) => Float32Array } = await import(/* @vite-ignore */ url);
  return module.runOp;
}
