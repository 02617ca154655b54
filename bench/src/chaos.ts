import { Campaign } from './load/campaign.js';
import { mebibytes } from './load/memory.js';
import { ServerChild } from './load/server-child.js';
import { measureSilentReader, type SilentReaderFigures } from './load/silent-reader.js';
import { openTales } from './model.js';
import { markdownTable } from './models/markdown.js';
import type { BenchOptions } from './options.js';
import type { BenchResult } from './result.js';

const FULL = { requests: 1_000, sockets: 24, silentMs: 30_000 };
const QUICK = { requests: 120, sockets: 12, silentMs: 4_000 };
/** Without resuming, and with a window in which some come back and some do not. */
const WINDOWS_MS = [0, 1_500];
const MISMATCH_RATE = 0.15;
const OVERLOADED = 1013;

interface CampaignFigures {
  readonly resumeWindowMs: number;
  readonly faults: object;
  readonly rollbacks: number;
  readonly failures: Readonly<Record<string, number>>;
}

/**
 * Connections that break in every way and at every moment over a model that is made to mispredict: afterwards nothing may
 * be left, and every answer that was gone on with must be the undisturbed one. Then a reader that reads nothing.
 */
export async function measureChaos({ quick, requests, sockets, threads }: BenchOptions): Promise<BenchResult> {
  const size = quick ? QUICK : FULL;
  const count = requests ?? size.requests;
  const clients = sockets ?? size.sockets;
  const campaigns: CampaignFigures[] = [];
  const rows: Record<string, string | number>[] = [];
  let device = '';
  for (const [index, resumeWindowMs] of WINDOWS_MS.entries()) {
    const share = Math.ceil(count / WINDOWS_MS.length);
    const limits = { resumeWindowMs, heartbeatMs: 3_000, slowReaderMs: 5_000 };
    const { child, listening } = await ServerChild.start({ threads, limits, mismatchRate: MISMATCH_RATE });
    device = listening.device;
    try {
      const { figures, faults } = await runCampaign(child, listening.url, [index * share, share, clients]);
      campaigns.push({ resumeWindowMs, ...figures });
      for (const [fault, of] of faults) rows.push({ 'window, ms': resumeWindowMs, fault, ...of });
    } finally {
      await child.close();
    }
  }
  const silentReader = await measureSilentReader(threads, size.silentMs);
  const failures = [...campaigns.flatMap(failuresOf), ...silentFailures(silentReader)];
  const { model, fingerprint } = await openTales();
  await model.close();
  return {
    workload:
      `${count} incidents by ${clients} clients at a time, half without a resume window and half with ${WINDOWS_MS[1]} ms; ` +
      `${MISMATCH_RATE * 100} % of the fast rows wrong; then a client that reads nothing for ${size.silentMs / 1000} s`,
    model: model.name,
    fingerprint,
    device,
    rows,
    tables: [markdownTable(rows), markdownTable([silentRow(silentReader)])],
    json: { errors: failures.length, campaigns, silentReader },
    ...(failures.length > 0 && { failure: failures.join('\n') }),
  };
}

async function runCampaign(child: ServerChild, url: string, [first, count, clients]: [number, number, number]) {
  const campaign = new Campaign(url);
  await campaign.learn();
  await campaign.run(first, count, clients);
  await child.untilIdle();
  campaign.release();
  await campaign.verify();
  const { engine } = await child.untilIdle();
  return {
    faults: campaign.figures,
    figures: {
      faults: Object.fromEntries(campaign.figures),
      rollbacks: engine.rollbacks,
      failures: Object.fromEntries(campaign.failures),
    },
  };
}

function failuresOf({ resumeWindowMs, failures, rollbacks }: CampaignFigures): string[] {
  const all = Object.entries(failures).map(([message, count]) => `window ${resumeWindowMs} ms: ${count} × ${message}`);
  if (rollbacks === 0) all.push(`window ${resumeWindowMs} ms: nothing was rolled back, so nothing was tried`);
  return all;
}

function silentFailures({ closeCode, peakUnsentBytes, boundBytes }: SilentReaderFigures): string[] {
  return [
    ...(closeCode === OVERLOADED ? [] : [`the silent reader was closed with ${closeCode}`]),
    ...(peakUnsentBytes <= boundBytes ? [] : [`${peakUnsentBytes} bytes waited for the silent reader`]),
  ];
}

function silentRow({ silentMs, closeCode, peakUnsentBytes, boundBytes, alone, beside }: SilentReaderFigures) {
  return {
    'silent for, s': Math.round(silentMs / 1000),
    'closed with': closeCode,
    'waiting at most, MiB': mebibytes(peakUnsentBytes),
    'bound, MiB': mebibytes(boundBytes),
    'gap of others alone p50, p99, ms': `${alone.p50}, ${alone.p99}`,
    'beside it p50, p99, ms': `${beside.p50}, ${beside.p99}`,
  };
}
