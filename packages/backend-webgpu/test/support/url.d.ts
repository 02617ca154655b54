/** What vite serves a file as. */
declare module '*?url' {
  const url: string;
  export default url;
}
