export function buildNative(options?: { readonly log?: (line: string) => void }): Promise<string | null>;
export function buildState():
  | { readonly kind: 'current' | 'stale' }
  | { readonly kind: 'unavailable'; readonly reason: string };
