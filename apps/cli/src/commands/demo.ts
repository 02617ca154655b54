import { drawSeed } from '../demo/random.js';
import { describeDemo, isDeterministic, summarize } from '../demo/report.js';
import { FULL_SCALE, QUICK_SCALE, runDemo } from '../demo/run-demo.js';
import { onInterrupt } from '../interrupt.js';
import { type EngineChoice, openEngine } from '../open-engine.js';
import { EXIT_FAILED, EXIT_INTERRUPTED } from '../report-error.js';

export interface DemoCommandOptions extends EngineChoice {
  readonly json?: boolean;
  readonly quick?: boolean;
  readonly crowdSeed?: number;
}

/** `stet demo`: exit code 1 when a deterministic answer or one of its log-probabilities differs. */
export async function demo(options: DemoCommandOptions): Promise<void> {
  const { crowdSeed = drawSeed() } = options;
  const scale = options.quick ? QUICK_SCALE : FULL_SCALE;
  // With --json, stdout has the one line and nothing else.
  const say = (line: string) => (options.json ? console.error(line) : console.log(line));
  const interrupt = onInterrupt();
  const { signal } = interrupt;
  try {
    await using engine = await openEngine(options, { sequences: 1 + Math.max(...scale.crowds), signal });
    const { model, backend, device, fingerprint } = engine.info;
    say(`${model} on ${backend} (${device}), ${fingerprint}`);
    say(`crowd seed ${crowdSeed}; each run has a crowd of its own`);
    const result = await runDemo(engine, { scale, crowdSeed, signal, onProgress: (line) => say(`  ${line}`) });
    const summary = summarize(result);
    say(`\n${describeDemo(result)}`);
    if (options.json) console.log(JSON.stringify(summary));
    if (!isDeterministic(summary)) process.exitCode = EXIT_FAILED;
  } catch (error) {
    if (!signal.aborted) throw error;
    process.exitCode = EXIT_INTERRUPTED;
  } finally {
    interrupt.dispose();
  }
}
