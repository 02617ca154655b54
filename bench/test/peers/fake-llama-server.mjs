#!/usr/bin/env node
// Speaks as much of llama-server as the benchmark uses. A prompt of [n, …] is answered by n, n + 1, …; one that begins with 666 ends the
// process, one that begins with 0 is never answered. It is ready at the second question.
import { createServer } from 'node:http';

const args = process.argv.slice(2);
const option = (name) => args[args.indexOf(name) + 1];
if (option('-m') === 'broken.gguf') {
  console.error('loading\nfailed to load model');
  process.exit(1);
}
let questions = 0;
createServer((request, response) => {
  if (request.url === '/health') {
    questions += 1;
    response.writeHead(questions < 2 ? 503 : 200).end('{}');
    return;
  }
  let text = '';
  request.on('data', (chunk) => {
    text += chunk;
  });
  request.on('end', () => {
    const { prompt, n_predict, temperature, ignore_eos, cache_prompt, return_tokens } = JSON.parse(text);
    if (prompt[0] === 666) process.exit(3);
    if (prompt[0] === 0) return;
    const asExpected = temperature === 0 && ignore_eos && !cache_prompt && return_tokens && option('-np') === '16';
    if (request.url !== '/completion' || !asExpected) {
      response.writeHead(400).end(`not expected: ${args} ${text}`);
      return;
    }
    const tokens = Array.from({ length: n_predict }, (_, i) => prompt[0] + i);
    response.end(JSON.stringify({ content: '', tokens, slots: option('-c') }));
  });
}).listen(Number(option('--port')), option('--host'));
