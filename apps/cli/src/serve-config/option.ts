export type OptionValue = string | number | boolean | readonly string[];

interface Common {
  /** Where it stands in a config file: `port`, `kv.blockSize`. */
  readonly path: string;
  /** Without the dashes. */
  readonly flag: string;
  readonly env: string;
  readonly group: string;
  readonly help: string;
  /** Absent where it depends on something else, which `help` says. */
  readonly default?: OptionValue;
}

/** One option of `stet serve`, which a flag, a variable or a config file may set. */
export type ServeOption = Common &
  (
    | { readonly kind: 'integer'; readonly min: number; readonly max: number }
    | { readonly kind: 'choice'; readonly choices: readonly string[] }
    | { readonly kind: 'text'; readonly metavar: string }
    | { readonly kind: 'list'; readonly metavar: string }
    | { readonly kind: 'boolean' }
  );

type Extra = Partial<Pick<Common, 'default' | 'flag' | 'env'>>;

/** Options of one group; flag and variable are named after the last part of the path unless they are given. */
export class OptionGroup {
  constructor(private readonly group: string) {}

  integer(path: string, help: string, range: { min: number; max?: number }, extra: Extra = {}): ServeOption {
    const { min, max = Number.MAX_SAFE_INTEGER } = range;
    return { ...this.#common(path, help, extra), kind: 'integer', min, max };
  }

  choice(path: string, help: string, choices: readonly string[], extra: Extra = {}): ServeOption {
    return { ...this.#common(path, help, extra), kind: 'choice', choices };
  }

  text(path: string, help: string, metavar: string, extra: Extra = {}): ServeOption {
    return { ...this.#common(path, help, extra), kind: 'text', metavar };
  }

  list(path: string, help: string, metavar: string, extra: Extra = {}): ServeOption {
    return { ...this.#common(path, help, extra), kind: 'list', metavar };
  }

  boolean(path: string, help: string, extra: Extra = {}): ServeOption {
    return { ...this.#common(path, help, extra), kind: 'boolean' };
  }

  #common(path: string, help: string, extra: Extra): Common {
    const flag = extra.flag ?? kebab(path.slice(path.lastIndexOf('.') + 1));
    const env = `STET_${flag.replaceAll('-', '_').toUpperCase()}`;
    return { path, group: this.group, help, env, ...extra, flag };
  }
}

function kebab(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
