import { assertNever } from '@stet/backend';
import type { GenerateRequest } from '@stet/engine';
import { seededUniform } from '../random.js';
import { readText, textNames } from '../texts.js';
import { FrameSocket, type OpenStream, type StreamEnd } from './frame-socket.js';
import { type Fault, faults, type Incident, incidentAt } from './incidents.js';
import { Transcript } from './stream-checker.js';

/** A deterministic request and the answer that nothing disturbed. */
interface Known {
  readonly request: GenerateRequest & { readonly seed: number };
  readonly isLong: boolean;
  readonly hash: string;
  readonly text: string;
}

export interface FaultFigures {
  incidents: number;
  /** The answer had ended before the moment came. */
  early: number;
  /** Gone on with by its handle, and computed again. */
  resumed: number;
  regenerated: number;
  /** Answers that were complete in the end, each equal to the undisturbed one. */
  whole: number;
}

/** Half of them have prompts that take several steps of prefill. */
const KNOWN_REQUESTS = 8;
const LONG_PROMPT_CHARACTERS = 1_200;
const SHORT_PROMPT_CHARACTERS = 80;
/** A connection may break while the rest is fetched: a busy machine can miss a heartbeat. */
const MAX_RETURNS = 8;

/** Clients that lose their connections in every way, and hold what they get in the end against the undisturbed answer. */
export class Campaign {
  readonly figures = new Map<Fault, FaultFigures>(faults.map((fault) => [fault, noFigures()]));
  readonly failures = new Map<string, number>();
  readonly #known: Known[] = [];
  readonly #abandoned: FrameSocket[] = [];

  constructor(private readonly url: string) {}

  /** Asks for every known request without disturbance. */
  async learn(): Promise<void> {
    const socket = await FrameSocket.connect(this.url);
    for (let index = 0; index < KNOWN_REQUESTS; index++) {
      const isLong = index % 2 === 1;
      const request = knownRequest(index, isLong ? LONG_PROMPT_CHARACTERS : SHORT_PROMPT_CHARACTERS);
      const { hash, text } = await wholeAnswer(socket, request);
      this.#known.push({ request, isLong, hash, text });
    }
    await socket.close();
  }

  /** Asks again: after whatever happened the answers must be the same. */
  async verify(): Promise<void> {
    const socket = await FrameSocket.connect(this.url);
    for (const known of this.#known) this.#compare(known, await wholeAnswer(socket, known.request));
    await socket.close();
  }

  /** `clients` at a time. */
  async run(first: number, count: number, clients: number): Promise<void> {
    let next = first;
    const client = async () => {
      while (next < first + count) {
        const incident = incidentAt(next++);
        try {
          await this.#happen(incident);
        } catch (error) {
          this.#fail(`${incident.fault} at ${incident.moment}, ${incident.way}: ${(error as Error).message}`);
        }
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  /** Frees this end of connections that were left half-open. */
  release(): void {
    for (const socket of this.#abandoned.splice(0)) socket.terminate();
  }

  async #happen(incident: Incident): Promise<void> {
    const { moment, fault, way } = incident;
    const figures = this.figures.get(fault)!;
    figures.incidents++;
    const choices = this.#known.filter(({ isLong }) => isLong === (moment === 'prefill'));
    const known = choices[incident.request % choices.length]!;
    const socket = await FrameSocket.connect(this.url);
    const transcript = new Transcript();
    const sides = Array.from({ length: incident.sideStreams }, (_, side) =>
      socket.start({ type: 'generate', ...sideRequest(incident, side) }, new Transcript()),
    );
    const stream = socket.start({ type: 'generate', ...known.request }, transcript);
    if (!(await reach(stream, incident))) figures.early++;
    const end = await this.#strike(socket, stream, incident);
    if (end.kind === 'done') {
      this.#compare(known, transcript);
      figures.whole++;
    } else if (end.kind === 'cut' && way !== 'none') await this.#comeBack(known, stream, way, figures);
    else if (end.kind === 'violation' || (end.kind === 'refused' && end.frame.code !== 'STET_ERR_ABORTED'))
      throw new Error(describe(end));
    for (const side of sides) {
      const sideEnd = await side.ended;
      if (sideEnd.kind === 'violation') throw sideEnd.error;
    }
  }

  /** Does what happens; resolves with how the stream under its first id ended. */
  async #strike(socket: FrameSocket, stream: OpenStream, { fault, pauseMs }: Incident): Promise<StreamEnd> {
    switch (fault) {
      case 'terminate':
        socket.terminate();
        break;
      case 'half-open':
        this.#abandoned.push(socket);
        socket.abandon();
        break;
      case 'close':
        await socket.close();
        break;
      case 'cancel': {
        socket.send({ type: 'cancel', id: stream.id });
        await stream.ended;
        await socket.close();
        break;
      }
      case 'slow': {
        socket.pause();
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
        socket.resume();
        await stream.ended;
        await socket.close();
        break;
      }
      default:
        assertNever(fault);
    }
    return stream.ended;
  }

  /** Fetches the rest over new connections. */
  async #comeBack(known: Known, lost: OpenStream, way: 'resume' | 'regenerate', figures: FaultFigures): Promise<void> {
    const { transcript } = lost;
    let handle = way === 'resume' ? lost.accepted?.stream : undefined;
    for (let attempt = 0; attempt < MAX_RETURNS; attempt++) {
      const socket = await FrameSocket.connect(this.url);
      const { tokenCount, hash } = transcript;
      const frame =
        handle === undefined
          ? { type: 'generate', ...known.request, ...(tokenCount > 0 && { after: tokenCount, hash }) }
          : { type: 'resume', stream: handle, after: tokenCount };
      const stream = socket.start(frame, transcript);
      const end = await stream.ended;
      await socket.close();
      if (end.kind === 'done') {
        this.#compare(known, transcript);
        figures.whole++;
        if (handle === undefined) figures.regenerated++;
        else figures.resumed++;
        return;
      }
      if (end.kind === 'refused' && end.frame.code === 'STET_ERR_UNKNOWN_STREAM') handle = undefined;
      else if (end.kind !== 'cut') throw new Error(describe(end));
    }
    throw new Error(`the connection was cut ${MAX_RETURNS} times in a row`);
  }

  #compare({ hash, text }: Known, transcript: Transcript): void {
    if (transcript.hash !== hash || transcript.text !== text) this.#fail('an answer is not that without disturbance');
  }

  #fail(message: string): void {
    this.failures.set(message, (this.failures.get(message) ?? 0) + 1);
  }
}

function reach(stream: OpenStream, { moment, commits }: Incident): Promise<boolean> {
  switch (moment) {
    case 'asked':
      return Promise.resolve(true);
    // A request is accepted before its prompt is computed.
    case 'accepted':
    case 'prefill':
      return stream.reaches(({ accepted }) => accepted !== undefined);
    case 'candidates':
      return stream.reaches(({ seen }) => seen.provisional > 0);
    case 'rollback':
      return stream.reaches(({ seen }) => seen.rollback > 0);
    case 'commits':
      return stream.reaches(({ seen }) => seen.commit >= commits);
    default:
      return assertNever(moment);
  }
}

async function wholeAnswer(socket: FrameSocket, request: GenerateRequest): Promise<Transcript> {
  const transcript = new Transcript();
  const end = await socket.start({ type: 'generate', ...request }, transcript).ended;
  if (end.kind !== 'done') throw new Error(`an undisturbed answer failed: ${describe(end)}`);
  return transcript;
}

function knownRequest(index: number, promptCharacters: number): Known['request'] {
  const uniform = seededUniform(77 + index);
  return {
    prompt: readText(textNames[index % textNames.length]!).slice(0, promptCharacters),
    deterministic: true,
    provisional: true,
    seed: index,
    maxTokens: 60 + Math.floor(uniform() * 100),
    ignoreEos: true,
    ...(index % 4 >= 2 && { temperature: 0.8, topP: 0.95 }),
  };
}

/** Without more credit it never ends by itself: only whoever loses it can free it. */
function sideRequest({ request, moment }: Incident, side: number): GenerateRequest & { readonly credit: number } {
  return { prompt: `${moment} ${request} ${side}`, maxTokens: 400, ignoreEos: true, credit: 20 + (request % 60) };
}

function describe(end: StreamEnd): string {
  switch (end.kind) {
    case 'refused':
      return `${end.frame.code}: ${end.frame.message}`;
    case 'violation':
      return end.error.message;
    case 'cut':
      return `closed with ${end.closeCode}`;
    case 'done':
      return 'done';
    default:
      return assertNever(end);
  }
}

function noFigures(): FaultFigures {
  return { incidents: 0, early: 0, resumed: 0, regenerated: 0, whole: 0 };
}
