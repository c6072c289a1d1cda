/* plan.js - what would happen if I submit this?
 *
 * A form makes a job file; the file can be edited; firnd predicts its start and
 * end without submitting it (POST /plan). A submit has a key that was drawn when
 * the form was opened: pressing the button twice makes one job.
 */
import { el, swap } from './dom.js';
import { post, ApiError } from './net.js';
import { store } from './store.js';
import { duration, gib, asks, safeName } from './words.js';

/* A YAML text in double quotes: the escapes of JSON are among those of YAML. */
const quoted = text => JSON.stringify(text);

const FIELDS = [
  ['name', 'Name', '', 'text', 'letters, digits and . _ -; empty: job-NUMBER'], ['command', 'Command', 'python train.py', 'text'], ['workdir', 'Working directory', '', 'text', 'from the root, such as /home/ann/project'],
  ['gpus', 'GPUs', '1', 'text', 'a number, or a range such as 1..8 for an elastic job'], ['types', 'GPU types', '', 'text', 'such as a100, h100; empty: any'],
  ['duration', 'Expected duration', '2h', 'text', 'such as 30m, 2h; empty: firnd estimates it from earlier jobs'], ['memory', 'Memory per GPU', '', 'text', 'such as 40 for 40 GiB; empty: not known'],
];

/* The job file that the form means. */
export function jobFile(form) {
  const value = name => form[name].trim(), lines = [];
  if (value('name')) lines.push(`name: ${quoted(value('name'))}`);
  lines.push(`run: ${quoted(value('command'))}`);
  if (value('workdir')) lines.push(`workdir: ${quoted(value('workdir'))}`);
  lines.push(`gpus: ${/^[0-9]+(\.\.[0-9]+)?$/.test(value('gpus')) ? value('gpus') : quoted(value('gpus'))}`);
  if (value('gpus').includes('..')) lines.push('elastic: {consistency: D1}');
  if (value('types')) lines.push(`gpu: [${value('types').split(',').map(t => quoted(t.trim())).join(', ')}]`);
  if (value('duration')) lines.push(`duration: ${quoted(value('duration'))}`);
  if (value('memory')) lines.push(`memory: ${/^[0-9.]+$/.test(value('memory')) ? value('memory') : quoted(value('memory'))}`);
  if (form.share) lines.push('share: allowed');
  if (form.checkpoint) lines.push('checkpoint: {grace: 60}');
  return `${lines.join('\n')}\n`;
}

/* The answer of POST /plan as sentences. */
export function planAnswer(answer) {
  const range = r => (r && r[0] !== null ? ` (${duration(r[0])} to ${duration(r[1])})` : '');
  const facts = [['policy', answer.policy], ['GPUs', answer.gpus === '-' ? 'not known' : answer.gpus]];
  if (answer.memory_gib) facts.push(['memory per GPU', `${gib(answer.memory_gib)}${answer.is_guess ? ' (a guess)' : ''}`]);
  if (answer.slows) facts.push(['others', `running jobs give up GPUs ${answer.slows} times`]);
  return [
    el('p', { class: 'say' }, answer.start_s === null ? 'When it starts is not known.' : answer.start_s <= 0 ? el('b', {}, 'Starts at once.') : ['Starts in about ', el('b', {}, duration(answer.start_s)), range(answer.start_range_s), '.'],
      answer.finish_s === null ? '' : [' Done in about ', el('b', {}, duration(answer.finish_s)), range(answer.finish_range_s), '.']),
    answer.unknown ? el('p', {}, safeName(answer.unknown)) : null,
    answer.change ? el('p', { class: 't-run' }, `It ${safeName(answer.change)}.`) : null,
    el('dl', { class: 'facts' }, facts.map(([k, v]) => [el('dt', {}, k), el('dd', {}, safeName(v))])),
    el('details', {}, el('summary', {}, 'firnd\u2019s own words'), el('p', {}, safeName(answer.text))),
  ];
}

export function plan(main) {
  const values = {}, answer = el('div', { class: 'in', 'aria-live': 'polite' });
  let key = crypto.getRandomValues(new Uint32Array(4)).join('-'), isEdited = false;
  const file = el('textarea', { 'aria-label': 'Job file', spellcheck: 'false', maxlength: '100000', oninput: () => { isEdited = true; } });
  const inputs = FIELDS.map(([name, label, value, type, hint]) => {
    values[name] = value;
    return el('label', { class: 'field' }, el('span', {}, label), el('input', { type, value, name, maxlength: '2000', oninput: event => { values[name] = event.target.value; write(); } }), hint ? el('small', {}, hint) : null);
  });
  const box = (name, label) => el('label', { class: 'check' }, el('input', { type: 'checkbox', name, onchange: event => { values[name] = event.target.checked; write(); } }), label);
  function write() { file.value = jobFile(values); isEdited = false; }
  const say = (...kids) => swap(answer, kids);
  async function ask(work, path, options) {
    try {
      say(el('p', { class: 'dim' }, `${work} …`));
      return await post(path, file.value, { type: 'application/yaml', ...options });
    } catch (error) {
      say(el('p', { class: 't-bad' }, error instanceof ApiError ? safeName(error.message) : 'firnd did not answer.'));
      return null;
    }
  }
  async function predict() {
    const got = await ask('Simulating', '/plan');
    if (got) say(planAnswer(got));
  }
  async function submit() {
    const job = await ask('Submitting', '/jobs', { headers: { 'Idempotency-Key': key } });
    if (!job) return;
    key = crypto.getRandomValues(new Uint32Array(4)).join('-');
    say(el('p', { class: 'say' }, 'Submitted: ', el('a', { href: `#/jobs/${job.id}` }, `job ${job.id} (${safeName(job.name)})`), `, ${asks(job)} GPUs.`));
  }
  main.replaceChildren(el('div', { class: 'bar' }, el('h1', {}, 'Plan'), el('span', { class: 'dim' }, 'what would happen if I submit this?')),
    el('div', { class: 'two' },
      el('section', { class: 'panel' }, el('header', {}, el('h2', {}, 'Job')),
        el('form', { class: 'in form', onsubmit: event => { event.preventDefault(); predict(); } }, inputs, box('share', 'may share its GPUs with another job'), box('checkpoint', 'writes a checkpoint when asked to stop'),
          el('div', { class: 'bar' }, el('button', { class: 'btn main', type: 'submit' }, 'What would happen?')))),
      el('div', { class: 'stack' },
        el('section', { class: 'panel' }, el('header', {}, el('h2', {}, 'Job file'), el('span', { class: 'grow' }), el('button', { class: 'btn', type: 'button', onclick: () => navigator.clipboard?.writeText(file.value) }, 'Copy')), file),
        el('section', { class: 'panel' }, el('header', {}, el('h2', {}, 'Prediction'), el('span', { class: 'grow' }), el('button', { class: 'btn', type: 'button', onclick: submit }, 'Submit it')), answer))));
  write();
  say(el('p', { class: 'dim' }, 'Nothing is submitted by asking. New jobs of others and wrong estimates change the outcome.'));
  return { title: 'Plan', update: () => { if (!isEdited && !store.nodes.length) write(); } };
}
