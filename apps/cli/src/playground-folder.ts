import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { StetError } from '@stet/backend';

/** Where the built playground lies. Throws `STET_ERR_UNSUPPORTED` where it was not built. */
export function playgroundFolder(): string {
  const folder = fileURLToPath(new URL('dist/', import.meta.resolve('@stet/playground/package.json')));
  if (!existsSync(folder))
    throw new StetError(
      'STET_ERR_UNSUPPORTED',
      `playground: it is not built, so ${folder} is missing; run \`npm run build\`, or serve with --no-playground`,
    );
  return folder;
}
