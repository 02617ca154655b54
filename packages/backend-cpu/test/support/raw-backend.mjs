// Uses the addon from plain JavaScript. As a program: raw-backend.mjs FILE MODE, FILE being a serialized RawLoad. As a
// worker: workerData is {load, mode}, and it posts `running` or the result.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { deserialize } from 'node:v8';
import { isMainThread, parentPort, workerData } from 'node:worker_threads';

const CANONICAL = 1;

async function open(addon, load) {
  const handle = addon.create(load.isa, 2, load.program, load.constants);
  for (const [index, { cosine, sine }] of load.ropes.entries()) addon.extendRope(handle, index, cosine, sine);
  for (const [index, data] of load.weights.entries()) {
    if (data.kind === 'vector') addon.setVector(handle, index, data.values);
    else await addon.packBf16(handle, index, data.bits);
  }
  addon.memory(handle);
  const logits = new Float32Array(load.vocabSize);
  addon.bind(handle, CANONICAL, load.columns, new Int32Array(1), new Float32Array(1), new Float32Array(1), logits);
  return { handle, logits };
}

function sleep(milliseconds) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

async function main(load, mode, report) {
  const addon = createRequire(import.meta.url)(load.addonFile);
  const { handle, logits } = await open(addon, load);
  switch (mode) {
    case 'leave-open':
      report('open');
      return;
    case 'leave-two-open':
      await open(addon, load);
      report('open');
      return;
    case 'leave-running':
      addon.forward(handle, false, true).then(() => report('finished'));
      report('running');
      return;
    case 'exit-running':
      addon.forward(handle, false, true);
      report('running');
      process.exit(0);
      break;
    case 'exit-finished':
      addon.forward(handle, false, true);
      report('running');
      // Without the event loop, which would settle the promise.
      while (logits.every((logit) => logit === 0)) sleep(1);
      sleep(50);
      process.exit(0);
      break;
    case 'close':
      await addon.forward(handle, false, true);
      await addon.close(handle);
      report(logits);
      return;
    case 'print':
      await addon.forward(handle, false, true);
      await addon.close(handle);
      report(Buffer.from(logits.buffer).toString('hex'));
      return;
    default:
      throw new Error(`unknown mode ${mode}`);
  }
}

if (isMainThread) {
  const [file, mode] = process.argv.slice(2);
  await main(deserialize(readFileSync(file)), mode, (line) => console.log(line));
} else {
  await main(workerData.load, workerData.mode, (message) => parentPort.postMessage(message));
}
