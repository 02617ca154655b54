import { connect, type Socket } from 'node:net';

/** A bare connection to a server, for requests that no client sends. */
export class RawConnection {
  readonly #closed: Promise<void>;
  #received = '';

  private constructor(readonly socket: Socket) {
    socket.on('data', (data) => {
      this.#received += data.toString('latin1');
    });
    socket.on('error', () => {});
    this.#closed = new Promise((resolve) => socket.once('end', resolve).once('close', () => resolve()));
  }

  static async open(url: string): Promise<RawConnection> {
    const { hostname, port } = new URL(url);
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    const connection = new RawConnection(socket);
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return connection;
  }

  get received(): string {
    return this.#received;
  }

  write(bytes: string | Uint8Array): this {
    if (this.socket.writable) this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
    return this;
  }

  /** Everything that came until the server closed the connection. */
  async all(timeoutMs = 20_000): Promise<string> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new Error(`the server kept the connection; it said ${this.#received}`)),
        timeoutMs,
      );
    });
    try {
      await Promise.race([this.#closed, late]);
    } finally {
      clearTimeout(timer);
      this.socket.destroy();
    }
    return this.#received;
  }
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** The answers in what a server sent over one connection; fails unless each is whole. */
export function parseAnswers(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let rest = text;
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n');
    const match = /^HTTP\/1\.1 (\d{3}) [^\r\n]*$/.exec(rest.slice(0, end).split('\r\n', 1)[0]!);
    if (end < 0 || match === null) throw new Error(`no answer begins at ${JSON.stringify(rest.slice(0, 200))}`);
    const headers = new Headers();
    for (const line of rest.slice(0, end).split('\r\n').slice(1)) {
      const [name, ...value] = line.split(':');
      headers.append(name!, value.join(':').trim());
    }
    const status = Number(match[1]);
    const length = status === 100 || status === 101 || status === 204 ? 0 : Number(headers.get('content-length'));
    const body = rest.slice(end + 4, end + 4 + length);
    if (body.length !== length) throw new Error(`a body of ${length} bytes was cut to ${body.length}`);
    answers.push({ status, headers, body });
    rest = rest.slice(end + 4 + length);
  }
  return answers;
}

/** The head of an upgrade to the stream. */
export function upgradeRequest(extra: readonly string[] = [], path = '/v1/stream'): string {
  const lines = [
    `GET ${path} HTTP/1.1`,
    'Host: localhost',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    ...extra,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}
