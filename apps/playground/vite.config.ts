import { defineConfig } from 'vite';
import { wgslText } from '../../scripts/wgsl-text.mjs';

export default defineConfig({
  root: import.meta.dirname,
  // Works in any folder of any server.
  base: './',
  plugins: [wgslText()],
  worker: { format: 'es', plugins: () => [wgslText()] },
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
