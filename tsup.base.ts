import type { Options } from 'tsup';

/** The build every package shares: ESM and types, one file per entry, dependencies left as imports. */
export function packageBuild(entry: Record<string, string>, extra: Options = {}): Options {
  return { entry, format: ['esm'], target: 'es2022', dts: true, sourcemap: true, clean: true, ...extra };
}
