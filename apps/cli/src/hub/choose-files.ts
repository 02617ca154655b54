import { downloadError } from './hub-error.js';
import type { RepoFile, Repository } from './repository.js';

const TEXT_FILE = /^(generation_config\.json|tokenizer[^/]*\.json|chat_template\.jinja)$/;
const SINGLE_FILE = 'model.safetensors';
const INDEX_FILE = 'model.safetensors.index.json';
const SHARD = /^model-\d{5}-of-\d{5}\.safetensors$/;
const GGUF_PART = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/s;
/** Most files that an error lists. */
const MAX_LISTED = 12;

/** What Stet needs of a repository, or the one file that was named, with its other parts where it is split. */
export function chooseFiles(repository: Repository, file: string | undefined): readonly RepoFile[] {
  return file === undefined ? modelFiles(repository) : namedFiles(repository, file);
}

function modelFiles({ repo, files }: Repository): readonly RepoFile[] {
  const root = new Map(files.filter(({ path }) => !path.includes('/')).map((file) => [file.path, file]));
  const config = root.get('config.json');
  const single = root.get(SINGLE_FILE);
  const index = root.get(INDEX_FILE);
  if (config && (single || index)) {
    // As the loader does: the single file where both are there.
    const weights = single ? [single] : [index!, ...[...root.values()].filter(({ path }) => SHARD.test(path))];
    return [config, ...[...root.values()].filter(({ path }) => TEXT_FILE.test(path)), ...weights];
  }
  const ggufs = files.filter(({ path }) => path.endsWith('.gguf'));
  if (ggufs.length > 0) {
    const message = `${repo} has GGUF files; name one, as in ${repo}:${ggufs[0]!.path} (there are ${listed(ggufs)})`;
    throw downloadError(message);
  }
  throw downloadError(
    `${repo} has no model that Stet reads: neither config.json with ${SINGLE_FILE} nor a .gguf file (it has ${listed(files)})`,
  );
}

function namedFiles({ repo, files }: Repository, name: string): readonly RepoFile[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const file = byPath.get(name);
  if (!file) {
    const ending = /\.[^./]+$/.exec(name)?.[0];
    const alike = files.filter(({ path }) => ending !== undefined && path.endsWith(ending));
    throw downloadError(`${repo} has no file ${name}; there are ${listed(alike.length > 0 ? alike : files)}`);
  }
  const [, stem, , total] = GGUF_PART.exec(name) ?? [];
  if (stem === undefined) return [file];
  return Array.from({ length: Number(total) }, (_, i) => {
    const path = `${stem}-${String(i + 1).padStart(5, '0')}-of-${total}.gguf`;
    const part = byPath.get(path);
    if (!part) throw downloadError(`${repo} lacks ${path}, a part of the split model ${name}`);
    return part;
  });
}

function listed(files: readonly RepoFile[]): string {
  if (files.length === 0) return 'nothing';
  const names = files.slice(0, MAX_LISTED).map(({ path }) => path);
  return `${names.join(', ')}${files.length > MAX_LISTED ? ` and ${files.length - MAX_LISTED} more` : ''}`;
}
