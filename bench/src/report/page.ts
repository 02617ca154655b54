import { Html, html } from './html.js';
import { pageStyle } from './style.js';

/** A page that needs no other file and asks nobody for anything. */
export function page(title: string, header: Html, contents: Html): string {
  const style = new Html(pageStyle());
  return `<!doctype html>
${
  html`<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<header>
${header}
</header>
${contents}
</body>
</html>
`.text
}`;
}
