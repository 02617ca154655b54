import { defineConfig } from 'tsup';
import { packageBuild } from '../../tsup.base.ts';

export default defineConfig(
  packageBuild({ main: 'src/main.ts' }, { dts: false, banner: { js: '#!/usr/bin/env node' } }),
);
