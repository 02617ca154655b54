import { createChatTemplate, renderChat } from '@stet/model';
import { describe, expect, it } from 'vitest';

const tokens = { bos_token: '<s>', eos_token: '</s>', pad_token: undefined, unk_token: undefined };
const template = (text: string, more: Record<string, string> = {}) =>
  createChatTemplate(new Map(Object.entries({ default: text, ...more })), tokens);
const messages = [
  { role: 'system', content: 'Be short.' },
  { role: 'user', content: 'Hi' },
];
const badTemplate = (message: RegExp) =>
  expect.objectContaining({ code: 'STET_ERR_BAD_CHAT_TEMPLATE', message: expect.stringMatching(message) });

describe('a chat template', () => {
  it('renders the messages with the special tokens and the beginning of the answer', () => {
    const chatml = template(
      `{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`,
    );
    const text = '<s><|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n';
    expect(chatml.render({ messages })).toBe(`${text}<|im_start|>assistant\n`);
    expect(chatml.render({ messages, addGenerationPrompt: false })).toBe(text);
  });

  it('takes its variant for tools where tools are passed', () => {
    const both = template('plain', { tool_use: 'tools: {{ tools | length }}' });
    expect(both.render({ messages })).toBe('plain');
    expect(both.render({ messages, tools: [{}, {}] })).toBe('tools: 2');
    expect(template('{{ tools is none }}').render({ messages })).toBe('true');
    expect(template('{{ tools | length }}').render({ messages, tools: [{}] })).toBe('1');
  });

  it('sees the time that it is given, in UTC and English, and none else', () => {
    const clock = template("{{ strftime_now('%d %b %Y, %A %B %-d, %I:%M %p %%') }}");
    expect(clock.render({ messages, now: new Date('2024-07-06T15:04:05Z') })).toBe(
      '06 Jul 2024, Saturday July 6, 03:04 PM %',
    );
    expect(() => clock.render({ messages })).toThrow(badTemplate(/asks for the time/));
    expect(() => template("{{ strftime_now('%Q') }}").render({ messages, now: new Date(0) })).toThrow(
      badTemplate(/directive %Q/),
    );
  });

  it('passes further variables on, but none that it defines itself', () => {
    const thinking = template('{{ enable_thinking }} {{ bos_token }}');
    expect(thinking.render({ messages, variables: { enable_thinking: false, bos_token: '!' } })).toBe('false !');
    expect(() => thinking.render({ messages, variables: { range: 1 } })).toThrow(badTemplate(/range is not yours/));
  });

  it('says why it refuses the messages', () => {
    const strict = template(
      "{% if messages[0].role != 'user' %}{{ raise_exception('System role not supported') }}{% endif %}",
    );
    expect(() => strict.render({ messages })).toThrow(badTemplate(/failed: System role not supported/));
    expect(strict.render({ messages: messages.slice(1) })).toBe('');
  });

  it('does not stop other templates when one cannot be parsed', () => {
    const half = template('ok', { tool_use: '{% if %}' });
    expect(half.render({ messages })).toBe('ok');
    expect(() => half.render({ messages, tools: [] })).toThrow(badTemplate(/cannot be parsed/));
  });

  it.each([
    [
      'loops in loops',
      '{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}',
      /more than 1000000 steps/,
    ],
    ['a macro that calls itself', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}', /failed/],
    ['a list without end', '{{ range(1000000000) }}', /range\(\) of 1000000000/],
    ['a step of nothing', '{{ range(1, 2, 0) }}', /range\(\)/],
    [
      'text that doubles',
      `{% set ns = namespace(t='x') %}{% for i in range(25) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}`,
      /at most 16777216/,
    ],
    [
      'loops in loops over nothing',
      `{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}`,
      /more than 1000000 steps/,
    ],
    [
      'a list that doubles',
      `{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}`,
      /more than 1000000 steps/,
    ],
    [
      'a list that holds itself twice',
      `{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}`,
      /more than 1000000 steps/,
    ],
    [
      'an object that holds itself twice',
      `{% set ns = namespace(l={}) %}{% for i in range(60) %}{% set ns.l = {'a': ns.l, 'b': ns.l} %}{% endfor %}{{ ns.l|tojson }}`,
      /more than 1000000 steps/,
    ],
    ['a namespace in itself', '{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}', /may not hold another/],
    ['a namespace in a list', '{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}', /may not be held/],
    ['a namespace made of another', '{% set ns = namespace() %}{% set b = namespace(a=ns) %}', /may not be held/],
    [
      'a search for long text in long text',
      `{% set ns = namespace(t='a') %}{% for i in range(18) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{% for i in range(9999) %}{% if 'b' + ns.t in ns.t %}{% endif %}{% endfor %}`,
      /more than 1000000 steps/,
    ],
    [
      'a comparison of long texts',
      `{% set ns = namespace(t='a') %}{% for i in range(18) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{% set a = ns.t + 'a' %}{% set b = ns.t + 'b' %}{% for i in range(9999) %}{% for j in range(99) %}{% if a == b %}{% endif %}{% endfor %}{% endfor %}`,
      /more than 1000000 steps/,
    ],
    [
      'text that replaces itself',
      `{% set ns = namespace(t='aaaaaaaaaaaaaaaa') %}{% for i in range(6) %}{% set ns.t = ns.t | replace('a', ns.t) %}{% endfor %}`,
      /more than 1000000 steps/,
    ],
    [
      'a list joined by long text',
      `{% set ns = namespace(l=[1], t='x') %}{% for i in range(14) %}{% set ns.l = ns.l + ns.l %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.l | join(ns.t) }}`,
      /more than 1000000 steps/,
    ],
    ['a wide indent', `{{ 'a\nb\nc' | indent(1000000000) }}`, /more than 1000000 steps/],
    [
      'a search through a long list',
      `{% set ns = namespace(l=range(9999)) %}{% set ns.l = ns.l + ns.l + ns.l + ns.l %}{% for i in range(9999) %}{% for j in range(9) %}{% if -1 in ns.l %}{% endif %}{% endfor %}{% endfor %}`,
      /more than 1000000 steps/,
    ],
    [
      'titles of long text',
      `{% set ns = namespace(t='a b ') %}{% for i in range(18) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{% for i in range(999) %}{% set x = ns.t | title %}{% endfor %}`,
      /more than 1000000 steps/,
    ],
    [
      'macros that call each other',
      '{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}',
      /more than 1000000 steps/,
    ],
    ['another file', "{% include 'secrets' %}", /cannot be parsed/],
    ['endless white space', `x${' '.repeat(1_000_000)}x`, /512 characters of white space/],
    ['endless lines', '\n'.repeat(1_000_000), /512 characters of white space/],
    ['nested brackets', `{{ ${'['.repeat(10_000)}1${']'.repeat(10_000)} }}`, /cannot be parsed/],
    ['nested conditions', `${'{% if true %}'.repeat(10_000)}x${'{% endif %}'.repeat(10_000)}`, /cannot be parsed/],
    ['a long chain', `{{ 1${'+1'.repeat(10_000)} }}`, /failed/],
    ['deep nesting', `{{ ${'('.repeat(100_000)} }}`, /cannot be parsed/],
    ['too much text', 'x'.repeat(2 ** 20 + 1), /at most 1048576/],
  ])('is stopped in %s', (_what, text, message) => {
    const started = performance.now();
    expect(() => template(text).render({ messages })).toThrow(badTemplate(message));
    expect(performance.now() - started).toBeLessThan(20_000);
  });

  it('renders a long conversation within its limits', () => {
    const turns = Array.from({ length: 4000 }, (_, i) => ({
      role: i % 2 ? 'assistant' : 'user',
      content: 'word '.repeat(200),
    }));
    const text = template(
      `{% for message in messages %}{% if loop.index0 > 0 and messages[loop.index0 - 1].role == message.role %}{{ raise_exception('order') }}{% endif %}{{ '<|' + message.role + '|>' + message.content | trim + eos_token }}{% endfor %}`,
    ).render({ messages: turns });
    expect(text.length).toBeGreaterThan(4_000_000);
  });

  it('is missing from a model with a clear error', () => {
    expect(() => renderChat({ name: 'tales' }, { messages })).toThrow(
      badTemplate(/the model tales has no chat template/),
    );
    expect(renderChat({ name: 'm', chatTemplate: template('yes') }, { messages })).toBe('yes');
    expect(() => createChatTemplate(new Map([['rag', 'x']]), tokens).render({ messages })).toThrow(
      badTemplate(/it has rag/),
    );
  });
});
