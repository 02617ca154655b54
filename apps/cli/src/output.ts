/**
 * Text on stdout, at the pace of whoever reads it. `onClosed` is called when they have gone (`stet run … | head`).
 */
export class TextOutput {
  readonly #stream: NodeJS.WriteStream;
  #isOpen = true;

  constructor(stream: NodeJS.WriteStream, onClosed: () => void) {
    this.#stream = stream;
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      this.#isOpen = false;
      onClosed();
    });
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  async write(text: string): Promise<void> {
    if (!this.#isOpen || text === '') return;
    await new Promise<void>((resolve) => this.#stream.write(text, () => resolve()));
  }
}
