import { defineConfig } from 'tsup';
import { packageBuild } from '../tsup.base.ts';

export default defineConfig([
  packageBuild(
    { index: 'src/index.ts', main: 'src/main.ts', 'load-server': 'src/load/server-process.ts' },
    // The page cleans its own folder, at the same time.
    { dts: false, clean: ['!page/**'] },
  ),
  // One script with everything in it, for a browser.
  packageBuild(
    { 'matrix-page': 'src/matrix/page/main.ts' },
    {
      ...{ dts: false, outDir: 'dist/page', platform: 'browser', noExternal: [/.*/], splitting: false },
      esbuildOptions: (options) => {
        // Files of packages whose imports have no effect, as their package.json says.
        options.logOverride = { 'ignored-bare-import': 'silent' };
      },
    },
  ),
]);
