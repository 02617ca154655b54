import { Command, Option } from 'commander';
import { backendNames } from './backend-names.js';
import { integerOption, numberOption } from './option-values.js';

/** The command line. Each command's code is loaded when it runs, so that none waits for the others. */
export function buildProgram(): Command {
  const program = new Command('stet')
    .description(
      'Serves language models with selective determinism: same tokens, bit for bit, whatever shares the batch.',
    )
    .version('0.0.0')
    .showHelpAfterError('hint: `stet --help` and `stet COMMAND --help` list what there is.')
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'error USAGE: ')) })
    .exitOverride();
  const serve = serveCommand(program);
  const bench = benchCommand();
  const commands = [
    runCommand(),
    serve,
    keysCommand(program),
    pullCommand(),
    inspectCommand(),
    doctorCommand(),
    demoCommand(),
    bench,
  ];
  for (const command of commands) program.addCommand(command.copyInheritedSettings(program));
  // Its arguments, --help among them, are for the command that is built when it runs.
  for (const command of [serve, bench]) command.helpOption(false).allowUnknownOption().allowExcessArguments();
  return program;
}

function runCommand(): Command {
  return withSampling(withEngine(new Command('run')))
    .description('continue a prompt and stream it to the terminal: text on stdout, figures on stderr')
    .argument('<prompt>', 'what the model continues or, with --chat, answers')
    .option('--chat', "take the prompt for a user's message, in the model's chat template")
    .option('--system <text>', 'instructions before the message, with --chat')
    .option('--deterministic', 'same tokens and log-probabilities, bit for bit, whatever else runs')
    .option('--max-tokens <n>', 'most output tokens', integerOption(1))
    .option('--stop <text>', 'end before this text; may be given up to 8 times', (text: string, all: string[] = []) => [
      ...all,
      text,
    ])
    .option('--ignore-eos', "do not end at the model's end-of-text token")
    .option(
      '--logprobs [n]',
      'print the log-probability of each token and of the n likeliest (default: 0)',
      integerOption(0, 20),
    )
    .option('--stats', 'print counters, speed, seed and hash')
    .action(async (prompt: string, options) => (await import('./commands/run.js')).run(prompt, options));
}

/** Its many options are those of the engine and the server, so they are known only once those are loaded. */
function serveCommand(program: Command): Command {
  const command = new Command('serve')
    .description('serve the model over HTTP and WebSocket until stopped; `stet serve --help` lists the options')
    .usage('[options]')
    .action(async () => {
      const { serveCommand: build } = await import('./serve-config/command.js');
      const { serve } = await import('./commands/serve.js');
      await build(serve).copyInheritedSettings(program).parseAsync(command.args, { from: 'user' });
    });
  return command;
}

function keysCommand(program: Command): Command {
  const make = new Command('new')
    .description('print a new key, once, and its entry for the file of `stet serve --keys`')
    .argument('<name>', 'whose it is; logs show it')
    .action(async (name: string) => (await import('./commands/keys.js')).newKey(name));
  return new Command('keys')
    .description('keys of those who may connect to `stet serve`')
    .addCommand(make.copyInheritedSettings(program));
}

function pullCommand(): Command {
  return new Command('pull')
    .description("fetch a model from the Hugging Face hub into the cache that Python's libraries share")
    .argument('<model>', 'org/name for what Stet needs of it, org/name:file for one file, such as a .gguf')
    .option('--revision <name>', 'a branch, tag or commit (default: main)')
    .option('--cache-dir <folder>', 'in place of HF_HUB_CACHE, HF_HOME or ~/.cache/huggingface/hub')
    .option('--token-env <name>', 'the variable that has the access token', 'HF_TOKEN')
    .action(async (model: string, options) => (await import('./commands/pull.js')).pull(model, options));
}

function inspectCommand(): Command {
  return new Command('inspect')
    .description('say what a model is: sizes, context, tensor types, tokenizer, template, memory, fingerprint')
    .argument('<model>', 'what --model of the other commands takes')
    .option('--template', 'print the whole chat template')
    .option('--json', 'print one JSON object')
    .action(async (model: string, options) => (await import('./commands/inspect.js')).inspect(model, options));
}

function doctorCommand(): Command {
  return withModel(new Command('doctor'))
    .description('say what this machine can run, test it, and say why something is unavailable')
    .option('--json', 'print one JSON object')
    .action(async (options) => (await import('./commands/doctor.js')).doctor(options));
}

function demoCommand(): Command {
  return withEngine(new Command('demo'))
    .description('show by measurement what determinism changes and what it costs')
    .option('--json', 'end with one line of JSON on stdout; the rest goes to stderr')
    .option('--quick', 'fewer, shorter runs')
    .option('--crowd-seed <n>', 'repeat the crowds of an earlier demo', integerOption(0))
    .action(async (options) => (await import('./commands/demo.js')).demo(options));
}

/** The bench is an app of its own, with arguments of its own. */
function benchCommand(): Command {
  const command = new Command('bench')
    .description(
      'measure what determinism costs on this machine, with a report; `stet bench --help` lists the scenarios',
    )
    .usage('NAME [options]')
    .action(async () => (await import('./commands/bench.js')).bench(command.args));
  return command;
}

function withModel(command: Command): Command {
  return command
    .option(
      '--model <path>',
      'a folder in Hugging Face layout, a .gguf file, org/name[:file] once pulled, or tales',
      'tales',
    )
    .addOption(
      new Option('--format <format>', 'how matrices are stored; auto is what suits the file, `stet inspect` says why')
        .choices(['auto', 'bf16', 'q8', 'q4'])
        .default('auto'),
    )
    .option('--context <n>', 'use so many positions of those that the model has', integerOption(1));
}

function withEngine(command: Command): Command {
  return withModel(command)
    .addOption(
      new Option('--backend <name>', 'what runs the model; webgpu+cpu decodes on the GPU and verifies on the CPU')
        .choices(backendNames)
        .default('cpu'),
    )
    .option('--threads <n>', 'threads of the CPU backend', integerOption(1, 256))
    .addOption(
      new Option('--isa <name>', 'instruction set of the CPU backend').choices(['auto', 'scalar', 'avx2', 'avx512']),
    )
    .addOption(
      new Option('--policy <name>', 'how deterministic requests decode; changes no bit')
        .choices(['auto', 'dvr', 'direct'])
        .default('auto'),
    )
    .option('--window <n>', 'candidates of a verify window, with --policy dvr', integerOption(1, 256))
    .option('--no-packed-cache', "do not keep packed weights in the user's cache, where the next start would read them")
    .option('--draft', 'guess tokens by prompt look-up; changes no bit of a deterministic answer');
}

function withSampling(command: Command): Command {
  return command
    .option('--seed <n>', 'all randomness; drawn and printed with --stats when absent', integerOption(0))
    .option('--temperature <x>', '0 is greedy', numberOption, 0)
    .option('--top-k <n>', 'keep the n likeliest tokens', integerOption(0))
    .option('--top-p <x>', 'keep the likeliest tokens up to this probability', numberOption)
    .option('--min-p <x>', "keep tokens of at least this part of the likeliest one's probability", numberOption)
    .option('--frequency-penalty <x>', 'against what was said often', numberOption)
    .option('--presence-penalty <x>', 'against what was said', numberOption)
    .option('--repetition-penalty <x>', 'against what stands in prompt or output; 1 is off', numberOption);
}
