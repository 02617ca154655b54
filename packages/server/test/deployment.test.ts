import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defaultServerLimits } from '@stet/server';
import { DEFAULT_PORT } from '@stet/server/protocol';
import { afterAll, describe, expect, it } from 'vitest';
import { serve } from './support/harness.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const nginxFile = read('deploy/nginx.conf');
const caddyFile = read('deploy/Caddyfile');

const folder = mkdtempSync(join(tmpdir(), 'stet-proxy-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function has(program: string, asked: string): boolean {
  try {
    execFileSync(program, [asked], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

const nginx = process.env.STET_NGINX ?? 'nginx';
const caddy = process.env.STET_CADDY ?? 'caddy';

describe('the examples of a proxy', () => {
  it('are those of the page', () => {
    const page = read('docs/DEPLOYMENT.md');
    for (const [name, language, text] of [
      ['Caddyfile', 'caddyfile', caddyFile],
      ['nginx.conf', 'nginx', nginxFile],
    ])
      expect(page).toContain(`<!-- deploy/${name} -->\n\`\`\`${language}\n${text}\`\`\``);
  });

  it('go to the port of the server and agree with its limits', () => {
    const seconds = (text: string, name: RegExp) => Number(name.exec(text)![1]);
    for (const text of [nginxFile, caddyFile]) {
      expect(text).toContain(`127.0.0.1:${DEFAULT_PORT}`);
      expect(seconds(text, /keepalive(?:_timeout)? (\d+)s/)).toBeLessThan(defaultServerLimits.keepAliveMs / 1000);
      expect(/(?:max_body_size|max_size) 1(?:m|MiB)\b/.test(text)).toBe(
        defaultServerLimits.maxBodyBytes === 1024 * 1024,
      );
    }
    expect(seconds(nginxFile, /proxy_read_timeout (\d+)s/)).toBeGreaterThan(defaultServerLimits.heartbeatMs / 1000);
    expect(nginxFile).toMatch(/proxy_set_header Upgrade .*\n.*proxy_set_header Connection /);
    expect(nginxFile).toContain('proxy_buffering off;');
    expect(caddyFile).toContain('flush_interval -1');
  });

  it.skipIf(!has(nginx, '-v') || !has('openssl', 'version'))(
    'are read by nginx (skipped without nginx and openssl)',
    () => {
      const [certificate, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
      const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-subj', '/CN=localhost'];
      execFileSync('openssl', [...request, '-keyout', key, '-out', certificate], { stdio: 'ignore' });
      const site = nginxFile.replace(/\S+fullchain\.pem/, certificate).replace(/\S+privkey\.pem/, key);
      writeFileSync(join(folder, 'site.conf'), site);
      for (const kind of ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']) mkdirSync(join(folder, kind));
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((kind) => `${kind}_temp_path ${join(folder, kind)};`)
        .join(' ');
      const main = `pid ${folder}/pid; events {} http { access_log off; ${temporary} include ${folder}/site.conf; }`;
      writeFileSync(join(folder, 'main.conf'), main);
      execFileSync(nginx, ['-t', '-p', folder, '-c', join(folder, 'main.conf'), '-e', 'stderr'], { stdio: 'pipe' });
    },
  );

  it.skipIf(!has(caddy, 'version'))('are read by Caddy (skipped without Caddy)', () => {
    const file = join(root, 'deploy/Caddyfile');
    const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
    execFileSync(caddy, ['validate', '--adapter', 'caddyfile', '--config', file], { stdio: 'pipe', env });
  });
});

describe('what a proxy adds', () => {
  it('changes nothing: neither who asks, nor from where, nor the name of the request', async () => {
    const forwarded = {
      'X-Forwarded-For': '127.0.0.1',
      'X-Forwarded-Host': 'localhost',
      'X-Forwarded-Proto': 'https',
      'X-Real-IP': '127.0.0.1',
      Forwarded: 'for=127.0.0.1;host=localhost;proto=https',
      'X-Request-Id': 'mine',
    };
    const keys = [{ name: 'a', key: 'a'.repeat(32) }];
    const { server, connect, logged } = await serve({}, {}, { keys });
    const answer = await fetch(`${server.url}/v1/tickets`, { method: 'POST', headers: forwarded });
    expect(answer.status).toBe(401);
    expect(answer.headers.get('x-request-id')).not.toBe('mine');
    const refused = await fetch(`${server.url}/health`, { headers: { ...forwarded, Origin: 'https://x.org' } });
    expect(refused.status).toBe(403);
    await expect(connect('stet.v1', { headers: forwarded })).rejects.toThrow('401');
    expect(JSON.stringify(logged)).not.toContain('mine');
  });
});
