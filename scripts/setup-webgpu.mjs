// Sees to it that the tests find a browser and something for WebGPU to run on: `npm test` calls it first. On Debian, as root
// or with sudo that asks nothing, it installs what is missing unless STET_NO_INSTALL=1; elsewhere it says what to install,
// and the tests that need it are skipped (or fail, with STET_REQUIRE_WEBGPU=1).
import { spawnSync } from 'node:child_process';
import { thisMachine } from './webgpu/machine.mjs';
import { planSetup, whatIsMissing } from './webgpu/setup.mjs';

/** Another apt-get may be at work. */
const LOCK_TIMEOUT_SECONDS = 120;

const plan = planSetup({
  ...thisMachine,
  maySudo: () => spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0,
});
switch (plan.kind) {
  case 'ready':
    break;
  case 'install':
    install(plan);
    break;
  case 'advise':
    advise(plan.why, plan.advice);
    break;
  default:
    throw new Error(`unexpected plan ${JSON.stringify(plan)}`);
}

/** @param {{ readonly packages: readonly string[], readonly why: string }} plan */
function install({ packages, why }) {
  const line = `apt-get install ${packages.join(' ')}`;
  console.log(`WebGPU tests: ${why}, so this runs ${line} (STET_NO_INSTALL=1 leaves it out) …`);
  // A source that cannot be reached need not be the one that has the packages: what counts is the install.
  aptGet('update', '-qq');
  const options = ['-qq', '-y', '--no-install-recommends', `-oDPkg::Lock::Timeout=${LOCK_TIMEOUT_SECONDS}`];
  const error = aptGet('install', ...options, ...packages);
  const missing = whatIsMissing();
  if (error !== undefined) advise(`${line} failed`, error);
  else if (missing !== undefined) advise(`after ${line} ${missing}`, 'Set CHROMIUM_PATH, or install Chrome.');
}

/** What it said, if it failed. */
function aptGet(...args) {
  const command = [
    ...(thisMachine.isRoot ? [] : ['sudo', '-n']),
    'env',
    'DEBIAN_FRONTEND=noninteractive',
    'apt-get',
    ...args,
  ];
  const { status, stderr, error } = spawnSync(command[0], command.slice(1), {
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
  });
  if (status === 0) return undefined;
  return error?.message ?? stderr.trim().split('\n').at(-1) ?? `it ended with status ${status}`;
}

function advise(why, advice) {
  console.log(`WebGPU tests will be skipped: ${why}.\n${advice}`);
}
