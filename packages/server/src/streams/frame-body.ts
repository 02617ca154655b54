import type { ErrorFrame, StreamFrame } from '../protocol/index.js';

type WithoutStreamFields<T> = T extends unknown ? Omit<T, 'id' | 'seq'> : never;

/** A frame of a stream but for its `id` and `seq`, which differ each time that it is sent. */
export type FrameContent = WithoutStreamFields<StreamFrame | ErrorFrame>;

/** The JSON of a frame's content, made once however often the frame is sent. */
export function bodyOf(content: FrameContent): string {
  return JSON.stringify(content);
}

/** The frame of the stream `id` whose content has this body, as JSON. */
export function frameText(id: string, seq: number, body: string): string {
  return `{"id":${JSON.stringify(id)},"seq":${seq},${body.slice(1)}`;
}
