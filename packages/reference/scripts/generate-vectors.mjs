// Writes the golden vectors of @stet/backend from the reference. Run after a build: npm run vectors
import { writeFile } from 'node:fs/promises';
import { goldenVectorFiles } from '@stet/reference/golden-vectors';

const folder = new URL('../../backend/src/conformance/vectors/', import.meta.url);
let total = 0;
for (const [name, text] of await goldenVectorFiles()) {
  await writeFile(new URL(name, folder), text);
  total += text.length;
  console.log(`${name.padEnd(16)} ${text.length} bytes`);
}
console.log(`${'total'.padEnd(16)} ${total} bytes`);
