import { defineConfig } from 'tsup';
import { packageBuild } from '../../tsup.base.ts';

export default defineConfig(
  packageBuild({ index: 'src/index.ts', float64: 'src/float64.ts', 'golden-vectors': 'src/golden-vectors.ts' }),
);
