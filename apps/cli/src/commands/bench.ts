import { StetError } from '@stet/backend';

/** What the bench app gives to those who call it. */
interface Bench {
  main(args: readonly string[], program?: string): Promise<number>;
}

/** Not a literal where it is imported: an app that is optional is neither bundled nor looked for when types are checked. */
const BENCH = '@stet/bench';

/** Runs the bench app with these arguments; its exit status becomes that of the program. */
export async function bench(
  args: readonly string[],
  load: (name: string) => Promise<unknown> = (name) => import(name),
): Promise<void> {
  const { main } = await loadBench(load);
  process.exitCode = await main(args, 'stet bench');
}

/** Rejects with `STET_ERR_NOT_INSTALLED` where the app is missing, or something that it needs. */
async function loadBench(load: (name: string) => Promise<unknown>): Promise<Bench> {
  try {
    return (await load(BENCH)) as Bench;
  } catch (cause) {
    if (!(cause instanceof Error) || !('code' in cause) || cause.code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    const [why] = cause.message.split('\n', 1);
    throw new StetError(
      'STET_ERR_NOT_INSTALLED',
      `stet bench needs ${BENCH}, which does not come with stet: npm install ${BENCH} (${why})`,
      { cause },
    );
  }
}
