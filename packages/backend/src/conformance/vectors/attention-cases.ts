import {
  type AttentionShape,
  attention,
  cancelling,
  clamped,
  exactShifts,
  type Fill,
  hard,
  jumping,
  loudBefore,
  lowest,
  ordinary,
  rising,
  shape,
  swinging,
} from './attention-inputs.js';
import type { OpCaseSpec } from './op-cases.js';

type Spec = (name: string, subset: OpCaseSpec['subset'], seed: number, shape: AttentionShape, fill: Fill) => OpCaseSpec;

/** Attention over one sequence: head sizes, shared heads, many blocks and chunks, windows, and scores at every clamp and flush. */
export function attentionCases(): OpCaseSpec[] {
  const spec: Spec = (name, subset, seed, shape, fill) => ({
    name: `attention: ${name}`,
    kind: 'attention',
    formats: [],
    subset,
    build: () => attention(seed, shape, fill),
  });
  return [
    spec('heads of 32 over one block', 'startup', 701, shape(2, 1, 32, 16, [0, 1, 7, 15]), ordinary),
    spec('shared heads over two chunks', 'startup', 702, shape(4, 2, 32, 16, [0, 63, 64, 100]), ordinary),
    spec('heads of 16, padded', 'full', 703, shape(4, 2, 16, 16, [0, 15, 16, 62, 65, 129]), ordinary),
    spec('every position of a sequence', 'full', 712, shape(1, 1, 16, 16, [...Array(96).keys()]), ordinary),
    spec('heads of 48, padded', 'full', 704, shape(3, 1, 48, 32, [0, 31, 64, 90]), ordinary),
    spec('heads of 64 over hundreds of positions', 'full', 705, shape(3, 1, 64, 16, [1, 127, 128, 191, 332]), ordinary),
    spec('heads of 128', 'full', 706, shape(2, 2, 128, 64, [0, 63, 70, 149]), ordinary),
    spec('scores that swing', 'full', 707, shape(2, 1, 64, 16, [3, 64, 128, 199]), swinging),
    spec('hard values', 'full', 708, shape(2, 1, 64, 16, [0, 9, 40, 64, 127, 149]), hard),
    spec('scores that rise from chunk to chunk', 'full', 709, shape(1, 1, 64, 32, [63, 64, 200, 319, 499]), rising),
    spec('jumps around a shift of 64', 'full', 710, shape(1, 1, 32, 16, [64, 128, 200, 320, 450, 639]), jumping),
    spec('more jumps', 'full', 711, shape(1, 1, 64, 16, [100, 192, 300, 420, 575]), jumping),
    spec('shifts of exactly 62 to 65', 'full', 713, shape(8, 8, 32, 16, [63, 64, 66]), exactShifts),
    spec('scores whose blocks cancel', 'full', 715, shape(1, 1, 128, 16, [0, 20, 63, 70]), cancelling),
    spec('scores at both clamps', 'full', 714, shape(1, 1, 32, 16, [0, 5, 40, 63, 90, 95]), clamped),
    ...windowCases(spec),
  ];
}

/** Windows of one position, of fewer than a chunk, of a chunk and one more or less, of more than the context. */
function windowCases(spec: Spec): OpCaseSpec[] {
  return [
    spec('a window over shared heads', 'startup', 721, shape(4, 2, 32, 16, [0, 23, 24, 63, 75, 87, 100], 24), ordinary),
    spec('louder keys before the window', 'startup', 722, shape(2, 1, 32, 16, [100, 101, 103], 24), loudBefore),
    spec('a window of 1', 'full', 723, shape(3, 1, 16, 16, [0, 1, 63, 64, 65, 127], 1), ordinary),
    spec('a window of 63', 'full', 724, shape(2, 1, 32, 16, [61, 62, 63, 64, 125, 126, 127, 190], 63), ordinary),
    spec('a window of 64', 'full', 725, shape(2, 1, 32, 32, [62, 63, 64, 65, 126, 127, 128, 191], 64), ordinary),
    spec('a window of 65', 'full', 726, shape(2, 2, 32, 16, [63, 64, 65, 127, 128, 129, 192], 65), ordinary),
    spec('a window of 100', 'full', 727, shape(3, 1, 64, 16, [98, 99, 100, 163, 200, 226, 227], 100), ordinary),
    spec('a window wider than the context', 'full', 728, shape(2, 1, 48, 16, [0, 63, 64, 129], 500), ordinary),
    spec('a window at every position', 'full', 729, shape(1, 1, 16, 16, [...Array(96).keys()], 24), ordinary),
    spec('a window over heads of 128', 'full', 730, shape(2, 1, 128, 64, [70, 127, 149], 40), ordinary),
    spec('a window over scores that swing', 'full', 731, shape(2, 1, 64, 16, [40, 64, 128, 199], 33), swinging),
    spec('a window over hard values', 'full', 732, shape(2, 1, 64, 16, [40, 64, 127, 149], 50), hard),
    spec('a window over rising scores', 'full', 733, shape(1, 1, 64, 32, [63, 200, 319, 499], 190), rising),
    spec('a window over jumps', 'full', 734, shape(1, 1, 32, 16, [128, 200, 320, 450, 639], 150), jumping),
    spec('a window over shifts of exactly 62 to 65', 'full', 735, shape(8, 8, 32, 16, [64, 66, 90], 60), exactShifts),
    spec('a window over scores at both clamps', 'full', 736, shape(1, 1, 32, 16, [40, 63, 95, 150], 30), clamped),
    spec('a window over the lowest scores', 'full', 740, shape(2, 1, 32, 16, [0, 5, 40, 66, 95], 10), lowest),
    spec('louder keys before a window of 100', 'full', 737, shape(2, 1, 64, 16, [227, 228], 100), loudBefore),
    spec('louder keys up to the border of a chunk', 'full', 738, shape(2, 1, 32, 16, [191], 64), loudBefore),
    spec('louder keys before a window of 1', 'full', 739, shape(2, 1, 32, 16, [70], 1), loudBefore),
  ];
}
