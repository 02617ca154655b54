import { defineConfig } from 'vitest/config';
import { swiftShaderEnv } from './scripts/swift-shader.mjs';
import { wgslText } from './scripts/wgsl-text.mjs';

const conditions = ['@stet/source'];

export default defineConfig({
  plugins: [wgslText()],
  resolve: { conditions: [...conditions, 'module', 'node', 'import', 'default'] },
  ssr: { resolve: { conditions: [...conditions, 'module', 'node', 'import', 'default'] } },
  test: {
    include: ['packages/*/test/**/*.test.ts', 'apps/*/test/**/*.test.ts', 'bench/test/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: 'forks',
    env: swiftShaderEnv(),
    coverage: { provider: 'v8', include: ['packages/*/src/**/*.ts'], reporter: ['text', 'json-summary'] },
  },
});
