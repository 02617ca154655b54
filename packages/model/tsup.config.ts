import { defineConfig } from 'tsup';
import { packageBuild } from '../../tsup.base.ts';

export default defineConfig(
  packageBuild({ index: 'src/index.ts', node: 'src/node/index.ts', browser: 'src/node/browser.ts' }),
);
