import { defineConfig } from 'tsup';
import { packageBuild } from '../../tsup.base.ts';

export default defineConfig(
  packageBuild({
    index: 'src/index.ts',
    'hash-chain': 'src/hash-chain.ts',
    numerics: 'src/numerics/index.ts',
    conformance: 'src/conformance/index.ts',
    'self-test': 'src/self-test/index.ts',
  }),
);
