import { assert } from '@stet/backend';
import dot4Builtin from '../../../../kernels/wgsl/dot4_builtin.wgsl';
import dot4Plain from '../../../../kernels/wgsl/dot4_plain.wgsl';
import prelude from '../../../../kernels/wgsl/prelude.wgsl';

/** What the device's WGSL offers besides the core language. */
export interface WgslFeatures {
  /** `dot4I8Packed` is an instruction of the language, and not our own function. */
  readonly dot4: boolean;
  /** `enable subgroups;` with sizes from `min` to `max`. */
  readonly subgroups?: { readonly min: number; readonly max: number };
}

export interface KernelBinding {
  readonly name: string;
  readonly binding: number;
  readonly type: GPUBufferBindingType;
}

export interface KernelParam {
  readonly name: string;
  readonly type: 'u32' | 'i32' | 'f32';
}

export type KernelConstants = Readonly<Record<string, number | boolean>>;

/**
 * A file of kernels/wgsl. Its bindings are all in group 0 and are bound by name; the fields of its `struct Params`, 4 bytes each,
 * are set by name. `constants` become `const` lines in front of it, whole numbers as i32 literals that fit u32 as well.
 */
export class Kernel {
  readonly name: string;
  readonly bindings: readonly KernelBinding[];
  readonly params: readonly KernelParam[];
  readonly #text: string;
  readonly #constants: KernelConstants;

  constructor(name: string, text: string, constants: KernelConstants = {}) {
    this.name = name;
    this.#text = text;
    this.#constants = constants;
    this.params = parseParams(text);
    this.bindings = parseBindings(`${prelude}\n${text}`);
  }

  /** The whole module. Equal text is an equal pipeline. */
  source(features: WgslFeatures): string {
    const enables = /^enable .*$/gm;
    const body = this.#text.replaceAll(enables, '');
    return [
      ...(this.#text.match(enables) ?? []),
      ...(features.dot4 ? ['requires packed_4x8_integer_dot_product;'] : []),
      ...Object.entries(this.#constants).map(([name, value]) => `const ${name} = ${value};`),
      features.dot4 ? dot4Builtin : dot4Plain,
      prelude,
      body,
    ].join('\n');
  }
}

const BINDING =
  /@group\(0\)\s*@binding\((\d+)\)\s*var<\s*(uniform|storage)\s*(?:,\s*(read|read_write)\s*)?>\s*(\w+)\s*:/g;

function parseBindings(text: string): KernelBinding[] {
  const bindings = [...text.matchAll(BINDING)].map(([, binding, space, access, name]): KernelBinding => {
    const type = space === 'uniform' ? 'uniform' : access === 'read_write' ? 'storage' : 'read-only-storage';
    return { name: name!, binding: Number(binding), type };
  });
  const count = text.split('@binding').length - 1;
  assert(bindings.length === count, `${count} bindings are declared, ${bindings.length} understood`);
  assert(new Set(bindings.map(({ binding }) => binding)).size === count, 'two bindings have one number');
  return bindings;
}

function parseParams(text: string): KernelParam[] {
  const body = /struct\s+Params\s*\{([^}]*)\}/.exec(text)?.[1];
  if (body === undefined) return [];
  return body
    .replaceAll(/\/\/.*$/gm, '')
    .split(',')
    .filter((field) => field.trim() !== '')
    .map((field) => {
      const match = /^\s*(\w+)\s*:\s*(u32|i32|f32)\s*$/.exec(field);
      assert(match !== null, `Params has the field ${JSON.stringify(field.trim())}, which is not u32, i32 or f32`);
      return { name: match[1]!, type: match[2] as KernelParam['type'] };
    });
}

/** The uniform buffer of a kernel's `Params`. Every field must be given, and no other. */
export function paramBytes(kernel: Kernel, values: Readonly<Record<string, number>>): ArrayBuffer {
  const names = Object.keys(values);
  const unknown = names.filter((name) => !kernel.params.some((param) => param.name === name));
  assert(unknown.length === 0, `${kernel.name} has no parameter ${unknown.join(', ')}`);
  const bytes = new ArrayBuffer(Math.max(16, Math.ceil(kernel.params.length / 4) * 16));
  const view = new DataView(bytes);
  kernel.params.forEach(({ name, type }, i) => {
    const value = values[name];
    assert(value !== undefined, `${kernel.name} needs the parameter ${name}`);
    if (type === 'f32') {
      view.setFloat32(i * 4, value, true);
    } else {
      assert(Number.isInteger(value), `${kernel.name}: ${name} is ${value}, expected a whole number`);
      view.setInt32(i * 4, value, true);
    }
  });
  return bytes;
}
