// The child process that runs node-llama-cpp for `npm run bench -- peers`, so that its threads are not ours.
// Messages in: { kind: 'load', model, threads }, { kind: 'run', prompts, outputTokens }, { kind: 'answer', crowd, sequences,
// contextTokens }, where a crowd is that of src/peers/crowds.ts. Messages out: { kind: 'ready' } once at the start, then one a
// message: { kind: 'loaded', version, device }, { kind: 'ran', startMs, arrivals } with the time of each token of each stream on
// this process's clock, { kind: 'answered', answers } with the tokens of each target, or { kind: 'failed', message }.
import { readFileSync } from 'node:fs';
import { getLlama } from 'node-llama-cpp';

/** Tokens of one decode call, as llama-bench has by default. */
const BATCH_TOKENS = 512;

const acts = { load, run, answer };

let model;
let threads;
/** Contexts by number of streams and length: one of many sequences is slower for few. */
const contexts = new Map();

process.on('message', async (message) => {
  try {
    process.send(await acts[message.kind](message));
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

async function decode(sequence, prompt, outputTokens) {
  const arrivals = [];
  for await (const _ of greedy(sequence, prompt, outputTokens)) arrivals.push(performance.now());
  return arrivals;
}

/** Every lane has a sequence; neighbours end when the targets have their answers. */
async function answer({ crowd: { target, lanes }, sequences: count, contextTokens }) {
  const sequences = await sequencesFor(count, contextTokens);
  const ask = async (sequence, { promptTokens, outputTokens }, isEnded) => {
    const tokens = [];
    await sequence.clearHistory();
    for await (const token of greedy(sequence, promptTokens, outputTokens)) {
      tokens.push(token);
      if (isEnded()) break;
    }
    return tokens;
  };
  let left = lanes.filter(({ kind }) => kind === 'target').length;
  const answers = lanes.map(async ({ kind, requests }, lane) => {
    if (kind === 'target') {
      const tokens = await ask(sequences[lane], target, () => false);
      left -= 1;
      return [tokens];
    }
    for (const request of requests) {
      if (left === 0) break;
      await ask(sequences[lane], request, () => left === 0);
    }
    return [];
  });
  return { kind: 'answered', answers: (await Promise.all(answers)).flat() };
}

/** The likeliest tokens, without an end before `outputTokens`. */
async function* greedy(sequence, prompt, outputTokens) {
  let written = 0;
  for await (const token of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    yield token;
    written += 1;
    if (written === outputTokens) return;
  }
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
