import { type Browser, chromium } from 'playwright';
import { chromiumArgs, findChromium } from '../../../../scripts/webgpu/chromium.mjs';
import { isWebGpuRequired, whyNoBrowser } from '../../../../scripts/webgpu/setup.mjs';

const missing = whyNoBrowser();
/** Where there is no browser the tests are shown as skipped, unless they must run. */
export const isSkipped = missing !== undefined && !isWebGpuRequired();

export function titled(title: string): string {
  return missing === undefined ? title : `${title} (skipped: ${missing})`;
}

export function launch(...args: string[]): Promise<Browser> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error(missing);
  return chromium.launch({ executablePath, args: [...chromiumArgs(), ...args] });
}
