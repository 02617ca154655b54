import { newApiKey, parseKeyFile } from '@stet/server';

/** `stet keys new`: a key that nobody has, shown this once, and what a file of keys needs to know of it. */
export function newKey(name: string): void {
  const { key, sha256 } = newApiKey();
  const entry = { name, sha256 };
  // The name must be one that `stet serve` will take.
  parseKeyFile(JSON.stringify({ keys: [entry] }));
  console.log(key);
  console.log(JSON.stringify(entry));
  console.error(
    'The first line is the key: give it to whoever may connect; it is not shown again, and stored nowhere.',
  );
  console.error('The second is its entry for "keys" in the file of `stet serve --keys`; a SIGHUP reloads that.');
}
