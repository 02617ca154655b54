/** Records a step: one compute pass for all kernels, interrupted by the copies between them alone. */
export class StepEncoder {
  readonly #encoder: GPUCommandEncoder;
  #pass: GPUComputePassEncoder | undefined;

  constructor(device: GPUDevice) {
    this.#encoder = device.createCommandEncoder({ label: 'step' });
  }

  /** The pass that is open. */
  get pass(): GPUComputePassEncoder {
    this.#pass ??= this.#encoder.beginComputePass();
    return this.#pass;
  }

  copy(source: GPUBuffer, sourceOffset: number, target: GPUBuffer, targetOffset: number, byteCount: number): void {
    this.#endPass();
    this.#encoder.copyBufferToBuffer(source, sourceOffset, target, targetOffset, byteCount);
  }

  finish(): GPUCommandBuffer {
    this.#endPass();
    return this.#encoder.finish();
  }

  #endPass(): void {
    this.#pass?.end();
    this.#pass = undefined;
  }
}
