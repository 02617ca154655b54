// The child process that runs node-llama-cpp for `npm run bench -- peers`, so that its threads are not ours.
// Messages in: { kind: 'load', model, threads }, { kind: 'run', prompts, outputTokens }. Messages out: { kind: 'ready' } once
// at the start, then one a message: { kind: 'loaded', version, device }, { kind: 'ran', startMs, arrivals } with the time of each
// token of each stream on this process's clock, or { kind: 'failed', message }.
import { readFileSync } from 'node:fs';
import { getLlama } from 'node-llama-cpp';

/** Tokens of one decode call, as llama-bench has by default. */
const BATCH_TOKENS = 512;

let model;
let threads;
/** Contexts by number of streams and length: one of many sequences is slower for few. */
const contexts = new Map();

process.on('message', async (message) => {
  try {
    process.send(message.kind === 'load' ? await load(message) : await run(message));
  } catch (error) {
    process.send({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
  }
});
process.on('disconnect', () => process.exit(0));
process.send({ kind: 'ready' });

async function load(message) {
  threads = message.threads;
  const llama = await getLlama({
    gpu: false,
    build: 'never',
    skipDownload: true,
    maxThreads: threads,
    progressLogs: false,
    logLevel: 'error',
  });
  model = await llama.loadModel({ modelPath: message.model, gpuLayers: 0 });
  const { version } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.resolve('node-llama-cpp')), 'utf8'),
  );
  return { kind: 'loaded', version, device: llama.systemInfo };
}

async function run({ prompts, outputTokens }) {
  const contextTokens = Math.max(...prompts.map((prompt) => prompt.length)) + outputTokens + 1;
  const sequences = await sequencesFor(prompts.length, contextTokens);
  for (const sequence of sequences) await sequence.clearHistory();
  const startMs = performance.now();
  const arrivals = await Promise.all(prompts.map((prompt, s) => decode(sequences[s], prompt, outputTokens)));
  return { kind: 'ran', startMs, arrivals };
}

/** Greedy, without an end before `outputTokens`. */
async function decode(sequence, prompt, outputTokens) {
  const arrivals = [];
  for await (const _ of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    arrivals.push(performance.now());
    if (arrivals.length === outputTokens) break;
  }
  return arrivals;
}

async function sequencesFor(count, contextTokens) {
  const key = `${count} ${contextTokens}`;
  let sequences = contexts.get(key);
  if (!sequences) {
    const context = await model.createContext({
      sequences: count,
      contextSize: contextTokens,
      batchSize: BATCH_TOKENS,
      threads: { ideal: threads, min: threads },
    });
    sequences = Array.from({ length: count }, () => context.getSequence());
    contexts.set(key, sequences);
  }
  return sequences;
}
