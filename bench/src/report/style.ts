import { type Colour, colours, darkChartRules, monoFont, sansFont, serifFont } from './theme.js';

/** Of every page that the bench writes. */
export function pageStyle(): string {
  return `:root{color-scheme:light dark;${variables('light')};--serif:${serifFont};--sans:${sansFont};--mono:${monoFont}}
@media screen and (prefers-color-scheme:dark){
:root{${variables('dark')}}
${darkChartRules('.chart')}
}
${layout}
${parts}
${narrow}
${print}`;
}

function variables(side: keyof Colour): string {
  return Object.entries(colours)
    .map(([name, colour]) => `--${name}:${colour[side]}`)
    .join(';');
}

const layout = `*,*::before,*::after{box-sizing:border-box}
html{scroll-behavior:smooth}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0 auto;padding:2.75rem 1.5rem 5rem;max-width:72rem;background:var(--paper);color:var(--ink);font:1rem/1.55 var(--sans);overflow-wrap:break-word}
body>header{max-width:50rem;margin-bottom:2rem}
.page{display:grid;grid-template-columns:minmax(0,1fr) 13rem;gap:2.5rem;align-items:start}
main{min-width:0;display:grid;gap:1.5rem}
nav{grid-column:2;grid-row:1;position:sticky;top:1.5rem;max-height:calc(100vh - 3rem);overflow-y:auto;font-size:.875rem}
main>section{min-width:0;padding:1.75rem;background:var(--sheet);border:1px solid var(--line);border-radius:.75rem;scroll-margin-top:1rem}`;

const parts = `h1{margin:0 0 .75rem;font:600 2.25rem/1.15 var(--serif);letter-spacing:-.01em}
h2{margin:0;font:600 1.5rem/1.25 var(--serif)}
h3{margin:2rem 0 .5rem;font:600 .9375rem/1.3 var(--sans)}
p{margin:0 0 .75rem;max-width:44rem}
a{color:var(--accent);text-underline-offset:.2em}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
/* The proof-reader's mark for "let it stand": dots below the word. */
.stet{text-decoration:underline dotted var(--accent) .1em;text-underline-offset:.22em}
.kicker{margin:0 0 .5rem;color:var(--soft);font-size:.875rem}
.note,figcaption{color:var(--soft);font-size:.875rem}
.question{margin:.375rem 0 1rem;color:var(--soft)}
.lead{font:1.1875rem/1.5 var(--serif);max-width:42rem}
.findings{margin:0 0 1rem;padding-left:1.25rem;max-width:44rem}
.findings li{margin:.375rem 0}
.summary{display:grid;gap:1.125rem;margin:1.25rem 0 0;padding:0;list-style:none}
.summary li{padding-left:1rem;border-left:.1875rem solid var(--accent)}
.summary a{display:block;font-size:.8125rem;color:var(--soft);text-decoration:none}
.summary a:hover{text-decoration:underline}
.summary span{font:1.0625rem/1.5 var(--serif)}
.callout{max-width:50rem;margin:0 0 1rem;padding:.875rem 1rem;background:var(--note);border-left:.25rem solid var(--accent);border-radius:.375rem}
.callout.bad{background:var(--failure);border-color:var(--bad)}
.callout p{margin:.125rem 0 0}
nav ol{margin:.5rem 0 0;padding:0;list-style:none}
nav li{margin:.125rem 0}
nav a{display:block;padding:.25rem .5rem;color:var(--soft);text-decoration:none;border-radius:.25rem}
nav a:hover{color:var(--ink);background:var(--sheet)}
nav strong{padding:0 .5rem;font-weight:600}
figure{margin:1.5rem 0 0}
figure h3{margin:0 0 .25rem}
figcaption{margin:0 0 .5rem;max-width:44rem}
.scroll{overflow-x:auto}
.scroll.tall{max-height:30rem;overflow-y:auto}
.chart{display:block;width:100%;height:auto;max-width:var(--width);min-width:min(var(--width),30rem)}
table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.375rem .875rem .375rem 0;text-align:left;vertical-align:baseline;border-bottom:1px solid var(--line)}
thead th{position:sticky;top:0;color:var(--soft);font-weight:500;background:var(--sheet);vertical-align:bottom}
tbody th{font-weight:400}
.number{text-align:right}
.number,.short{white-space:nowrap}
th.number,td.number{padding-left:.5rem}
.facts{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.375rem 1.25rem;margin:1rem 0 0;font-size:.9375rem}
.facts dt{color:var(--soft)}
.facts dd{margin:0}
code{font:.8125rem/1.45 var(--mono);overflow-wrap:anywhere}
.verdict{font-weight:600;white-space:nowrap}
.verdict.better{color:var(--good)}
.verdict.worse{color:var(--bad)}
.verdict.alike,.verdict.unknown{color:var(--soft)}
.facts+.note{margin-top:1.25rem}
.paper{width:100%;table-layout:fixed}
.paper .what{width:44%}
.paper .theirs{width:5.5rem}
.paper .ours{width:4.5rem}
.paper td[data-label=ours]{white-space:nowrap}
.paper .drawn{width:9rem}
.paper .number,.paper .verdict{white-space:normal}
.paper td,.paper th{vertical-align:top}
.paper small{display:block;color:var(--soft);font-size:.8125rem;max-width:32rem}
.dumbbell{display:block;width:8rem;height:1.25rem;margin-top:.0625rem}
.dumbbell .track{stroke:var(--line)}
.dumbbell .gap{stroke:var(--soft);stroke-width:2}
.dumbbell .theirs{fill:var(--sheet);stroke:var(--ink);stroke-width:1.5}
.dumbbell .range{fill:none;stroke:var(--ink);stroke-width:5;opacity:.35}
.dumbbell .ours{fill:var(--accent)}
.dumbbell.worse .ours{fill:var(--bad)}
.moved{font-weight:600}
.change small{display:block;color:var(--soft);font-size:.75rem}`;

const narrow = `@media (max-width:60rem){
body{padding:1.75rem 1rem 3rem}
h1{font-size:1.75rem}
.page{grid-template-columns:minmax(0,1fr);gap:1.25rem}
nav{grid-column:1;grid-row:auto;position:static;max-height:none}
nav ol{display:flex;flex-wrap:wrap}
main>section{padding:1.125rem 1rem}
.facts{grid-template-columns:minmax(0,1fr);gap:0}
.facts dt{margin-top:.5rem;font-size:.8125rem}
.paper,.paper tbody{display:block}
.paper thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.paper tr{display:grid;grid-template-columns:repeat(3,auto) 1fr;gap:.25rem 1.25rem;align-items:end;padding:.625rem 0;border-bottom:1px solid var(--line)}
.paper th,.paper td{padding:0;border:0;text-align:left}
.paper tbody th,.paper .verdict{grid-column:1/-1}
.paper td[data-label]::before{content:attr(data-label);display:block;color:var(--soft);font-size:.75rem}
.paper .dumbbell{width:6rem}
.chart{min-width:min(var(--width),26rem)}
}`;

const print = `@media print{
body{padding:0;max-width:none;background:none;font-size:10pt}
nav{display:none}
.page{display:block}
main>section{padding:0 0 1rem;border:0;break-inside:auto}
h2,h3,figcaption{break-after:avoid}
figure,tr,.callout,.summary li{break-inside:avoid}
.scroll,.scroll.tall{max-height:none;overflow:visible}
thead th{position:static}
.chart{min-width:0}
table{font-size:7.5pt}
th,td{padding:.2rem .4rem .2rem 0}
.number,.short{white-space:normal}
a{color:inherit;text-decoration:none}
}`;
