import { readdirSync, statSync } from 'node:fs';
import { defineConfig } from 'vite';
import { wgslText } from '../../scripts/wgsl-text.mjs';

/** Servers that compress do not say how many bytes will arrive. */
function talesSizes(): Record<string, number> {
  const folder = new URL('../../packages/tales/model/', import.meta.url);
  return Object.fromEntries(readdirSync(folder).map((name) => [name, statSync(new URL(name, folder)).size]));
}

export default defineConfig({
  root: import.meta.dirname,
  // Works in any folder of any server.
  base: './',
  plugins: [wgslText()],
  worker: { format: 'es', plugins: () => [wgslText()] },
  define: { __TALES_SIZES__: JSON.stringify(talesSizes()) },
  resolve: { conditions: ['@stet/source', 'module', 'browser', 'import', 'default'] },
  build: {
    target: 'es2022',
    sourcemap: true,
    // Data URLs are what the content security policy forbids.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { host: '127.0.0.1' },
  preview: { host: '127.0.0.1' },
});
