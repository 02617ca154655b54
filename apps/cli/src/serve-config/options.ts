import { defaultLimits, type EngineLimits } from '@stet/engine';
import { defaultServerLimits, type ServerLimits, smallestServerLimit } from '@stet/server';
import { backendNames } from '../backend-names.js';
import { OptionGroup, type ServeOption } from './option.js';

const reach = new OptionGroup('Where, and for whom');
const model = new OptionGroup('The model, and what runs it');
const kv = new OptionGroup('Memory');
const watch = new OptionGroup('Logs and metrics');
const engine = new OptionGroup('Limits of the engine');
const server = new OptionGroup('Limits of the server');

const engineLimitHelp: Readonly<Record<keyof EngineLimits, string>> = {
  maxWaiting: 'requests that may wait',
  maxRunning: 'requests that run at once',
  maxRows: 'rows of one batch of a step, and so the largest chunk of a prompt',
  maxCanonicalRows: 'rows of the canonical batch of a step, where it is less',
  maxUnreadTokens: 'unread output tokens at which a request pauses',
  promptCharactersPerPosition: 'characters of a prompt for each position of the context',
  maxMessages: 'messages of a chat',
  maxStopStrings: 'stop texts of a request',
  maxStopCharacters: 'characters of a stop text',
  maxLogitBiases: 'entries of logitBias',
  maxTopLogprobs: 'log-probabilities beside that of the token itself',
  maxChoices: 'answers to one prompt (n of OpenAI)',
  maxPrompts: 'prompts of one request for completions of OpenAI',
  maxRecreations: 'times in a row that a lost device is answered by a new backend',
  recreationWaitMs: 'wait before the second of these, doubled from then on',
  defaultMaxTokens: 'output tokens of a request that does not say how many',
};

const serverLimitHelp: Readonly<Record<keyof ServerLimits, string>> = {
  maxSockets: 'WebSockets that may be open',
  maxStreamsPerSocket: 'streams of one socket',
  highWaterBytes: 'unsent bytes of a socket at which its streams are not read any more',
  lowWaterBytes: 'unsent bytes at which they are read again',
  slowReaderMs: 'how long a client may leave unread what is too much',
  resumeWindowMs: 'how long a stream without a socket can be resumed; 0 keeps none',
  resumeBufferBytes: 'commits that are kept of one stream',
  resumeTotalBytes: 'commits that are kept of all streams',
  maxDetachedStreams: 'streams without a socket that are kept',
  maxDetachedStreamsPerKey: 'of these, those of one key',
  heartbeatMs: 'time between two pings of a socket',
  drainMs: 'how long running streams may go on after SIGTERM',
  closeHandshakeMs: 'how long a client may take to answer a close frame',
  maxConnections: 'connections of every kind',
  maxHeaderBytes: 'all headers of a request',
  headersTimeoutMs: 'how long headers may take to arrive',
  requestTimeoutMs: 'how long a whole request may take to arrive',
  maxBodyBytes: 'body of an HTTP request',
  ssePingMs: 'silence of an event stream before it says that it lives',
  keepAliveMs: 'how long an idle HTTP connection is kept',
  ticketMs: 'how long a ticket can be used',
  maxTicketsPerKey: 'tickets of one key that are neither used nor expired',
};

/** Every option of `stet serve`, in the order of its help. What it may be, the engine and the server check once more. */
export const serveOptions: readonly ServeOption[] = [
  reach.text('host', 'a loopback address or, with keys, any', 'address', { default: '127.0.0.1' }),
  reach.integer('port', '0 takes any free one', { min: 0, max: 65_535 }, { default: 8642 }),
  reach.text('keys', 'who may connect, see docs/DEPLOYMENT.md; STET_API_KEY is one more key', 'file', {
    env: 'STET_KEYS_FILE',
  }),
  reach.list('allowOrigin', 'origins whose pages may connect (default: pages of this machine)', 'origin'),
  reach.boolean('playground', 'serve a page to chat with the model at / (default: on a loopback host)'),
  model.text('model', 'a folder in Hugging Face layout, a .gguf file, org/name[:file] once pulled, or tales', 'path', {
    default: 'tales',
  }),
  model.choice('format', 'how matrices are stored; auto is what suits the file', ['auto', 'bf16', 'q8', 'q4'], {
    default: 'auto',
  }),
  model.integer('context', 'use so many positions (default: all that the model has)', { min: 1 }),
  model.choice('backend', 'what runs the model; webgpu+cpu decodes on the GPU and verifies on the CPU', backendNames, {
    default: 'cpu',
  }),
  model.integer('threads', 'threads of the CPU backend (default: one for each core)', { min: 1, max: 256 }),
  model.choice('isa', 'instruction set of the CPU backend (default: auto)', ['auto', 'scalar', 'avx2', 'avx512']),
  model.boolean('packedCache', "keep packed weights in the user's cache, where the next start reads them", {
    default: true,
  }),
  model.choice('policy', 'how deterministic requests decode; changes no bit', ['auto', 'dvr', 'direct'], {
    default: 'auto',
  }),
  model.integer('window', 'candidates of a verify window, with policy dvr', { min: 1, max: 256 }),
  model.boolean('draft', 'guess tokens by prompt look-up; changes no bit of a deterministic answer', {
    default: false,
  }),
  model.choice('onDeviceLost', 'make the backend anew, or end all requests', ['recreate', 'fail'], {
    default: 'recreate',
  }),
  kv.integer(
    'kv.memoryMiB',
    'K/V blocks, in MiB (default: 64 whole contexts, 256 MiB at most)',
    { min: 1 },
    {
      flag: 'kv-memory',
    },
  ),
  kv.integer('kv.blocks', 'K/V blocks by their number, in place of memory', { min: 1 }, { flag: 'kv-blocks' }),
  kv.integer(
    'kv.blockSize',
    'positions of a block, a multiple of 16',
    { min: 16 },
    {
      flag: 'kv-block-size',
      default: 16,
    },
  ),
  kv.choice('prefixCache', 'share K/V of prompts that begin alike', ['on', 'off'], { default: 'on' }),
  watch.choice('logLevel', 'least level of what is logged, on stderr', ['debug', 'info', 'warn', 'error', 'silent'], {
    default: 'info',
  }),
  watch.choice('logFormat', 'JSON lines, or lines for people', ['json', 'pretty'], { default: 'pretty' }),
  watch.choice(
    'metrics',
    'who may read /metrics; auto: everybody on a loopback host, else whoever has a key',
    ['auto', 'open', 'keyed', 'off'],
    { default: 'auto' },
  ),
  ...limitsOf(defaultLimits).map(([name, value]) =>
    engine.integer(`engine.${name}`, engineLimitHelp[name], { min: 1 }, { default: value }),
  ),
  ...limitsOf(defaultServerLimits).map(([name, value]) =>
    server.integer(`server.${name}`, serverLimitHelp[name], { min: smallestServerLimit(name) }, { default: value }),
  ),
];

function limitsOf<Limits extends object>(limits: Limits): [keyof Limits & string, number][] {
  return Object.entries(limits) as [keyof Limits & string, number][];
}
