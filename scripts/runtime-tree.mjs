// Copies what `stet` needs to run, and nothing else, into an empty folder: `node scripts/runtime-tree.mjs FOLDER`. It takes
// the built program from the checkout, and from node_modules what the program's packages depend on, at the same places.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const ENTRY = 'apps/cli';
/** Of a package of this repository, besides its package.json. */
const RUNTIME_PARTS = ['dist', 'build/stet_cpu.node', 'build/unavailable.json', 'model'];

const [target] = process.argv.slice(2);
if (target === undefined || (existsSync(target) && readdirSync(target).length > 0)) {
  console.error('usage: node scripts/runtime-tree.mjs FOLDER, which must be empty or missing');
  process.exit(2);
}
const out = resolve(target);
const seen = new Set();
const todo = [join(root, ENTRY)];
for (let folder = todo.pop(); folder !== undefined; folder = todo.pop()) {
  if (seen.has(folder)) continue;
  seen.add(folder);
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  if (isOwn(folder)) copyOwn(folder);
  else copy(folder, (source) => !relative(folder, source).split(/[\\/]/).includes('node_modules'));
  for (const name of Object.keys(manifest.dependencies ?? {})) todo.push(found(name, folder, true));
  for (const name of Object.keys(manifest.optionalDependencies ?? {})) {
    const optional = found(name, folder, false);
    if (optional !== undefined) todo.push(optional);
  }
}
copy(join(root, 'LICENSE'));
copy(join(root, 'package.json'));
console.log(`${seen.size} packages in ${out}`);

function isOwn(folder) {
  return !relative(root, folder).split(/[\\/]/).includes('node_modules');
}

/** The folder of a package as Node finds it from `from`; a package of this repository gets its link. */
function found(name, from, isNeeded) {
  for (let folder = from; folder.startsWith(dirname(root)); folder = dirname(folder)) {
    const place = join(folder, 'node_modules', name);
    if (!existsSync(place)) continue;
    const real = realpathSync(place);
    if (real !== place) link(place, real);
    return real;
  }
  if (isNeeded) throw new Error(`${name}, which ${relative(root, from)} needs, is not installed`);
  return undefined;
}

function link(place, real) {
  const copied = join(out, relative(root, place));
  if (existsSync(dirname(copied)) && readdirSync(dirname(copied)).includes(place.split('/').at(-1))) return;
  mkdirSync(dirname(copied), { recursive: true });
  symlinkSync(relative(dirname(place), real), copied);
}

function copyOwn(folder) {
  if (!existsSync(join(folder, 'dist'))) throw new Error(`${relative(root, folder)} is not built`);
  copy(join(folder, 'package.json'));
  for (const part of RUNTIME_PARTS) {
    if (existsSync(join(folder, part))) copy(join(folder, part), (source) => !/\.(map|d\.ts)$/.test(source));
  }
}

function copy(path, filter = () => true) {
  const copied = join(out, relative(root, path));
  mkdirSync(dirname(copied), { recursive: true });
  cpSync(path, copied, { recursive: true, filter });
}
