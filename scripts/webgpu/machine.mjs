import { existsSync, readdirSync } from 'node:fs';

/**
 * What the setup of WebGPU asks of a machine; tests bring their own.
 * @typedef {object} Machine
 * @property {string} platform As in `process.platform`.
 * @property {Readonly<Record<string, string | undefined>>} env
 * @property {boolean} isRoot
 * @property {(path: string) => boolean} exists
 * @property {(folder: string) => string[]} list Names in a folder; none where it is missing.
 */

/** @type {Machine} */
export const thisMachine = {
  platform: process.platform,
  env: process.env,
  isRoot: process.getuid?.() === 0,
  exists: existsSync,
  list: (folder) => (existsSync(folder) ? readdirSync(folder) : []),
};
