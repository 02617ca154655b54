// Writes test/vectors/answers.json: what the reference answers to the cases of test/support/answer-cases.ts, one after the
// other. Run it only where the numerics, the sampler or the cases changed: node packages/backend-webgpu/scripts/write-answers.mjs
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const { module } = await runnerImport(fileURLToPath(new URL('../test/support/reference-answers.ts', import.meta.url)), {
  configFile: false,
  oxc: { target: 'node20' },
  ssr: { noExternal: [/^@stet\//], resolve: { conditions: ['@stet/source', 'node', 'import', 'default'] } },
});
const answers = await module.referenceAnswers();
const file = new URL('../test/vectors/answers.json', import.meta.url);
await writeFile(file, `${JSON.stringify(answers, undefined, 2)}\n`);
console.log(`${Object.keys(answers).length} answers`);
