// Who may import whom. The table is the architecture; a line may only be removed from it.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

const allowed = {
  'packages/backend': [],
  'packages/reference': ['backend'],
  // The embedded model is data, known by its name and loaded when it is asked for.
  'packages/model': ['backend', 'tales'],
  'packages/tales': [],
  'packages/kv-cache': [],
  'packages/scheduler': ['backend', 'kv-cache'],
  'packages/engine': ['backend', 'scheduler', 'model'],
  'packages/backend-cpu': ['backend'],
  'packages/backend-webgpu': ['backend'],
  'packages/server': ['backend', 'engine'],
  'packages/client': ['backend', 'server/protocol'],
  'packages/testing': ['backend', 'kv-cache', 'scheduler'],
};
/** These run in a browser: no `node:*`, except below the folder given. */
const portable = {
  'packages/backend': null,
  'packages/reference': null,
  'packages/model': 'packages/model/src/node/',
  'packages/kv-cache': null,
  'packages/scheduler': null,
  'packages/engine': null,
  'packages/client': null,
  'packages/backend-webgpu': null,
};
/** Functions of their inputs: no clock, randomness, environment or I/O. */
const pure = ['packages/scheduler', 'packages/kv-cache'];
const impure =
  /\b(Date\.now|performance\.now|new Date\b|Math\.random|crypto\.|process\.|setTimeout|setInterval|setImmediate|fetch\(|console\.)/;

const problems = [];
for (const [folder, names] of Object.entries(allowed)) {
  for (const file of sources(join(folder, 'src'))) checkFile(folder, names, file);
}
for (const folder of [...Object.keys(allowed), 'apps/cli', 'apps/playground', 'bench']) {
  for (const file of sources(join(folder, 'src'))) {
    if (/from '@stet\/(cli|playground|bench)\b/.test(read(file))) problems.push(`${file} imports an app`);
  }
}
if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exit(1);
}

function checkFile(folder, names, file) {
  const text = read(file);
  for (const [, name] of text.matchAll(/(?:from|import\()\s*'@stet\/([^']+)'/g)) {
    const own = folder === `packages/${name.split('/')[0]}`;
    if (!own && !names.some((one) => name === one || (!one.includes('/') && name.startsWith(`${one}/`)))) {
      problems.push(`${file} imports @stet/${name}, which ${folder} may not`);
    }
  }
  const nodeFolder = portable[folder];
  if (
    nodeFolder !== undefined &&
    !(nodeFolder && file.startsWith(nodeFolder)) &&
    /(from|import\()\s*'node:/.test(text)
  ) {
    problems.push(`${file} imports node:*, but ${folder} runs in a browser`);
  }
  if (pure.includes(folder)) {
    text.split('\n').forEach((line, index) => {
      if (impure.test(line) && !/^\s*(\*|\/\/|\/\*)/.test(line))
        problems.push(`${file}:${index + 1} is not pure: ${line.trim()}`);
    });
  }
}

function sources(folder) {
  return readdirSync(folder)
    .map((name) => join(folder, name))
    .flatMap((path) => (statSync(path).isDirectory() ? sources(path) : path.endsWith('.ts') ? [path] : []));
}

function read(file) {
  return readFileSync(file, 'utf8');
}
