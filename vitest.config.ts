import { availableParallelism } from 'node:os';
import { defineConfig, type TestProjectInlineConfiguration, type ViteUserConfig } from 'vitest/config';
import { chromiumArgs, findChromium } from './scripts/webgpu/chromium.mjs';
import { vulkanEnv } from './scripts/webgpu/vulkan.mjs';
import { wgslText } from './scripts/wgsl-text.mjs';

/** Workspaces are tested as their sources. */
const source = '@stet/source';
const node = { resolve: { conditions: [source, 'module', 'node', 'import', 'default'] } };
const timeouts = { testTimeout: 60_000, hookTimeout: 60_000 };
/** A GPU on the CPU is slow, and other tests run beside it. */
const gpuTimeouts = { testTimeout: 480_000, hookTimeout: 480_000 };
const browserTests = 'packages/*/test/**/*.browser.test.ts';

export default defineConfig(async (): Promise<ViteUserConfig> => {
  const chromium = findChromium();
  return {
    test: {
      // One file a core; by itself vitest would leave one idle.
      maxWorkers: availableParallelism(),
      coverage: { provider: 'v8', include: ['packages/*/src/**/*.ts'], reporter: ['text', 'json-summary'] },
      projects: [nodeProject(), ...(chromium ? [await browserProject(chromium)] : [])],
    },
  };
});

function nodeProject(): TestProjectInlineConfiguration {
  return {
    ...node,
    ssr: node,
    plugins: [wgslText()],
    test: {
      name: 'node',
      include: [
        'packages/*/test/**/*.test.ts',
        'apps/*/test/**/*.test.ts',
        'bench/test/**/*.test.ts',
        'scripts/test/**/*.test.ts',
      ],
      exclude: ['**/node_modules/**', browserTests],
      ...timeouts,
      pool: 'forks',
      env: vulkanEnv(),
    },
  };
}

async function browserProject(chromium: string): Promise<TestProjectInlineConfiguration> {
  const { playwright } = await import('@vitest/browser-playwright');
  return {
    resolve: { conditions: [source, 'browser', 'module', 'import', 'default'] },
    // What is set up outside of the page runs in Node.
    ssr: node,
    plugins: [wgslText()],
    // Dependencies are modules already. Bundling those that are met on the way would reload the page amid its tests.
    optimizeDeps: { noDiscovery: true },
    test: {
      name: 'browser',
      include: [browserTests],
      globalSetup: ['packages/client/test/support/page-server.ts'],
      ...gpuTimeouts,
      browser: {
        enabled: true,
        headless: true,
        ui: false,
        screenshotFailures: false,
        provider: playwright({ launchOptions: { executablePath: chromium, args: chromiumArgs() } }),
        instances: [{ browser: 'chromium' }],
      },
    },
  };
}
