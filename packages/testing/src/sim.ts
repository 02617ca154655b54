import { runSimulator } from './simulator/cli.js';

/** Entry of `npm run sim`. Progress goes to standard error, now and then. */
let lastMs = performance.now();
process.exitCode = await runSimulator(process.argv.slice(2), {
  line: (text) => console.log(text),
  progress: (text) => {
    if (performance.now() - lastMs < 5000) return;
    lastMs = performance.now();
    console.error(text);
  },
});
