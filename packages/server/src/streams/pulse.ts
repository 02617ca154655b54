/** Wakes all who wait for something to change; they look again whether it did. */
export class Pulse {
  #waiting: Promise<void> | undefined;
  #wake = () => {};

  wait(): Promise<void> {
    this.#waiting ??= new Promise((resolve) => {
      this.#wake = resolve;
    });
    return this.#waiting;
  }

  fire(): void {
    this.#waiting = undefined;
    this.#wake();
  }
}
