const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** `512 bytes`, `93.4 MiB`: three or four digits and a unit. */
export function formatBytes(bytes: number): string {
  const power = bytes < 1024 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), UNITS.length - 1);
  const value = bytes / 1024 ** power;
  return `${power === 0 ? value : value.toFixed(1)} ${UNITS[power]}`;
}
