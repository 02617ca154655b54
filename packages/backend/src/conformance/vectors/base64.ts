/** Base64 of the little-endian bytes of f32 values. */
export function encodeFloats(values: Float32Array): string {
  const view = new DataView(new ArrayBuffer(values.length * 4));
  for (const [i, value] of values.entries()) view.setFloat32(i * 4, value, true);
  let bytes = '';
  for (let i = 0; i < view.byteLength; i++) bytes += String.fromCharCode(view.getUint8(i));
  return btoa(bytes);
}

/** The values of {@link encodeFloats}. */
export function decodeFloats(text: string): Float32Array {
  const bytes = atob(text);
  const view = new DataView(new ArrayBuffer(bytes.length));
  for (let i = 0; i < bytes.length; i++) view.setUint8(i, bytes.charCodeAt(i));
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(i * 4, true));
}
