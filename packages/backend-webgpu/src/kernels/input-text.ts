/** An input of a kernel whose output may be the same buffer, which cannot be bound twice. */
export interface InputText {
  readonly name: string;
  readonly binding: number;
  readonly buffer: GPUBuffer;
}

/** WGSL functions `NAME_at(i)` that read the inputs: from bindings of their own, or from `output` where an input is that buffer. */
export function inputText(inputs: readonly InputText[], output: GPUBuffer): string {
  return inputs
    .map(({ name, binding, buffer }) =>
      buffer === output
        ? `fn ${name}_at(i: u32) -> f32 { return output[i]; }\n`
        : `@group(0) @binding(${binding}) var<storage, read> ${name}: array<f32>;\nfn ${name}_at(i: u32) -> f32 { return ${name}[i]; }\n`,
    )
    .join('');
}

/** The buffers of the bindings that `inputText` declares. */
export function inputBuffers(inputs: readonly InputText[], output: GPUBuffer): Record<string, GPUBuffer> {
  return Object.fromEntries(inputs.flatMap(({ name, buffer }) => (buffer === output ? [] : [[name, buffer]])));
}
