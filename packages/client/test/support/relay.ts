import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Passes bytes on to a port of this machine, until it is told to cut, as a network does. */
export class Relay {
  readonly port: number;
  /** Where the next connection leads. */
  target: number;
  /** Connections that were made through it. */
  connectionCount = 0;
  /** Called before a connection is passed on. */
  onConnection: () => void = () => {};
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cuts: number[] = [];

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.target = target;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (near) => this.#relay(near));
  }

  static async to(target: number): Promise<Relay> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new Relay(server, target);
  }

  get url(): string {
    return `ws://127.0.0.1:${this.port}`;
  }

  /** The next connections break when so many bytes came from the server, one number for each. */
  cutAfter(byteCounts: readonly number[]): void {
    this.#cuts = [...byteCounts];
  }

  /** Breaks the connections there are, and says how many. */
  cut(): number {
    const count = this.#sockets.size / 2;
    for (const socket of this.#sockets) socket.destroy();
    return count;
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #relay(near: Socket): void {
    this.connectionCount++;
    this.onConnection();
    const far = connect(this.target, '127.0.0.1');
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    near.pipe(far);
    const cutAfter = this.#cuts.shift();
    if (cutAfter === undefined) far.pipe(near);
    else passUpTo(cutAfter, far, near);
  }
}

function passUpTo(byteCount: number, far: Socket, near: Socket): void {
  let left = byteCount;
  far.on('data', (chunk: Buffer) => {
    const passed = chunk.subarray(0, left);
    left -= passed.length;
    near.write(passed, () => {
      if (left === 0) near.destroy();
    });
  });
}
