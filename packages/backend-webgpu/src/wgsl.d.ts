/** Kernel sources are bundled as text. */
declare module '*.wgsl' {
  const text: string;
  export default text;
}
