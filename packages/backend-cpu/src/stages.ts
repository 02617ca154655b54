/**
 * Puts the operations of a plan into stages. The work of one stage is independent apart from its kind: row operations
 * of a stage run one after the other on each row, linears are split by tiles, attention by heads and rows. A stage
 * begins when the one before is finished, so an operation goes into the first stage that follows all it depends on.
 */
export interface Stage {
  readonly kind: 'rows' | 'linear' | 'attention' | 'logits';
  readonly entries: StageEntry[];
}

export type StageEntry =
  | { readonly kind: 'op'; readonly words: readonly number[] }
  /** Linears that are split alike, so that a task can go on with the swiglu of what it computed. */
  | { readonly kind: 'unit'; linears: UnitLinear[]; swigluOutput: number };

export interface UnitLinear {
  readonly output: string;
  readonly words: readonly number[];
}

/** As native/program.h has it. */
const MAX_UNITS = 8;

/** A buffer, a slot of prepared inputs or the K/V of a layer. */
interface Resource {
  writeStage: number;
  readStage: number;
  version: number;
}

export class Schedule {
  readonly stages: Stage[] = [];
  readonly #resources = new Map<string, Resource>();

  /** Adds an entry to the first stage of its kind that comes after all it needs. */
  place(kind: Stage['kind'], reads: readonly string[], writes: readonly string[], entry: StageEntry): void {
    let earliest = 0;
    for (const name of reads) earliest = Math.max(earliest, this.#after(this.#resource(name).writeStage, kind));
    for (const name of writes) {
      const { writeStage, readStage } = this.#resource(name);
      earliest = Math.max(earliest, this.#after(writeStage, kind), this.#after(readStage, kind));
    }
    const stage = this.#stageFrom(earliest, kind);
    this.stages[stage].entries.push(entry);
    for (const name of reads) this.#read(name, stage);
    for (const name of writes) this.#write(name, stage);
  }

  /** Adds a stage of its own at the end. */
  placeLast(kind: Stage['kind'], entry: StageEntry): void {
    this.stages.push({ kind, entries: [entry] });
  }

  /** Counts the writes to a resource. */
  version(name: string): number {
    return this.#resource(name).version;
  }

  /**
   * Makes two linears of one stage and the swiglu of their outputs one unit, where nothing else reads or writes what
   * the swiglu overwrites at that point. Returns whether it did.
   */
  fuseSwiglu(gate: string, up: string, output: string, outputId: number): boolean {
    const index = this.#resource(gate).writeStage;
    const stage = this.stages[index];
    if (gate === up || stage?.kind !== 'linear' || this.#resource(up).writeStage !== index) return false;
    const gateUnit = unitOf(stage, gate);
    const upUnit = unitOf(stage, up);
    if (!gateUnit || !upUnit) return false;
    const target = this.#resource(output);
    const isFree = target.readStage < index && (target.writeStage < index || output === gate || output === up);
    if (!isFree) return false;
    gateUnit.linears.push(...upUnit.linears);
    gateUnit.swigluOutput = outputId;
    stage.entries.splice(stage.entries.indexOf(upUnit), 1);
    this.#read(gate, index);
    this.#read(up, index);
    this.#write(output, index);
    return true;
  }

  /** First stage that may hold an operation of a kind which depends on one of `stage`. */
  #after(stage: number, kind: Stage['kind']): number {
    if (stage < 0) return 0;
    // Row operations of one stage run in order on each row.
    return kind === 'rows' && this.stages[stage].kind === 'rows' ? stage : stage + 1;
  }

  #stageFrom(earliest: number, kind: Stage['kind']): number {
    for (let i = earliest; i < this.stages.length; i++) {
      const stage = this.stages[i];
      if (stage.kind === kind && (kind !== 'linear' || stage.entries.length < MAX_UNITS)) return i;
    }
    return this.stages.push({ kind, entries: [] }) - 1;
  }

  #resource(name: string): Resource {
    let resource = this.#resources.get(name);
    if (!resource) {
      resource = { writeStage: -1, readStage: -1, version: 0 };
      this.#resources.set(name, resource);
    }
    return resource;
  }

  #read(name: string, stage: number): void {
    const resource = this.#resource(name);
    resource.readStage = Math.max(resource.readStage, stage);
  }

  #write(name: string, stage: number): void {
    const resource = this.#resource(name);
    resource.writeStage = stage;
    resource.version++;
  }
}

/** The unit of a stage that is the one linear which writes `output`. */
function unitOf(stage: Stage, output: string): (StageEntry & { kind: 'unit' }) | undefined {
  for (const entry of stage.entries) {
    if (entry.kind === 'unit' && entry.linears.length === 1 && entry.linears[0].output === output) return entry;
  }
  return undefined;
}
