import { readFileSync } from 'node:fs';

/** A plugin of vite: a kernel source is a module whose default export is its text, as tsup bundles it. */
export function wgslText() {
  return {
    name: 'wgsl-text',
    load(id) {
      const [path] = id.split('?');
      return path.endsWith('.wgsl') ? `export default ${JSON.stringify(readFileSync(path, 'utf8'))};` : undefined;
    },
  };
}
