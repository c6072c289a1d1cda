/* job.js - one job: what is it doing, when is it done, what happened to it?
 *
 * A sentence, its life on one time axis (GPUs held, loss, time of a step, frozen
 * layers, memory), facts, output, attempts, events, and what could be changed.
 * Actions ask once, and say what is lost.
 */
import { el, panel, swap, confirmAction } from './dom.js';
import { get, post } from './net.js';
import { store, now_s, jobOf, mayChange } from './store.js';
import { duration, clock, moment, plural, count, number, percent, sentenceCase, gib, span, asks, safeName, isOver, countGpus } from './words.js';
import { timeChart } from './charts.js';
import { statePill, eventRow, IS_NOISE, jobLink, causeOf } from './shared.js';
import { planAnswer } from './plan.js';
import { logPanel } from './log.js';

const AGAIN_MS = 3000;

function sentence(job, seen) {
  const now = now_s();
  if (isOver(job)) return `${sentenceCase(safeName(job.why) || job.state)}, ${duration(now - job.ended_s)} ago, ${duration(job.ended_s - job.submitted_s)} after its submit.`;
  if (job.state === 'pending') {
    const start = seen?.start_at_s ? ['Starts in about ', el('b', {}, duration(seen.start_at_s - now)), span(seen.start_range_s, now), seen.position ? `, number ${seen.position} in the queue.` : '.']
      : seen?.hangs_on ? ['When it starts is not known: it depends on the end of ', jobOf(seen.hangs_on) ? jobLink(jobOf(seen.hangs_on)) : `job ${seen.hangs_on}`, ', which has no duration and reports no progress.'] : '';
    return [`${sentenceCase(safeName(job.why))}. `, start];
  }
  return ['Holds ', el('b', {}, plural(job.ngpus, 'GPU')), job.gpus_min !== job.gpus_max ? ` of ${asks(job)}` : '', `, has run for ${duration(job.ran_s || 0)}`,
    seen?.finish_at_s ? [', done in about ', el('b', {}, duration(seen.finish_at_s - now)), span(seen.finish_range_s, now)] : '', '.'];
}

/* --- its life -------------------------------------------------------------------- */

/* Steps of GPUs held, from its `gpus` events, else from its attempts. */
function heldPoints(job, events, end_s) {
  const points = [[job.submitted_s, 0]], changes = events.filter(e => e.kind === 'gpus').sort((a, b) => a.id - b.id);
  if (changes.length) for (const e of changes) points.push([e.at_s, countGpus(e.text)]);
  else for (const a of job.attempts || []) points.push([a.started_s, countGpus(a.gpus)], [a.ended_s || end_s, a.ended_s ? 0 : countGpus(a.gpus)]);
  points.push([end_s, isOver(job) ? 0 : points[points.length - 1][1]]);
  return points;
}
function column(reports, name) {
  const at = reports.columns.indexOf(name);
  return reports.rows.filter(row => row[at] !== null).map(row => [row[0], row[at]]);
}
/* Samples a second where the batch is reported, else steps a second. */
function throughput(reports) {
  const step = reports.columns.indexOf('step_s'), batch = reports.columns.indexOf('batch');
  const rows = reports.rows.filter(row => row[step] > 0), isSamples = batch >= 0 && rows.some(row => row[batch] > 0);
  return { unit: isSamples ? 'samples/s' : 'steps/s', points: rows.filter(row => !isSamples || row[batch] > 0).map(row => [row[0], (isSamples ? row[batch] : 1) / row[step]]) };
}
const last = points => points[points.length - 1][1];

function life(job, seen, reports, events, width_px) {
  const end_s = job.ended_s || now_s(), from_s = job.submitted_s, likely_s = seen?.finish_at_s || seen?.start_at_s;
  const to_s = !job.ended_s && likely_s ? Math.min(likely_s + (likely_s - from_s) * 0.06, end_s + (end_s - from_s) * 1.5 + 60) : end_s;
  const group = [], x = [from_s, Math.max(to_s, from_s + 10)], common = { width_px, x, group, now_s: job.ended_s ? undefined : now_s() };
  const marks = (job.attempts || []).filter(a => a.ended_s && a.end !== 'done').map(a => ({ at_s: a.ended_s, tone: a.end === 'checkpoint' ? 'wait' : 'bad', text: job.attempts.length < 7 ? a.end : '', dash: '3 2' }));
  if (likely_s && !job.ended_s) marks.push({ at_s: likely_s, tone: 'run', text: `${seen.finish_at_s ? 'done' : 'starts'} ${clock(likely_s)}`, isLeft: true, dash: '4 3' });
  const started_s = job.started_s || end_s, bands = started_s - from_s > (x[1] - from_s) * 0.03 ? [{ from_s, to_s: started_s, text: `waits ${duration(started_s - from_s)}` }] : [];
  const chart = (title, tone, points, more) => { if (points.length) group.push(timeChart({ ...common, height_px: 112, title, ...more, series: [{ points, tone, ...more.series }] })); };
  chart('GPUs held', 'run', heldPoints(job, events, end_s), { series: { isStep: true, isArea: true }, max: Math.max(1, job.gpus_max, ...heldPoints(job, events, end_s).map(p => p[1])), rows: job.gpus_max <= 4 ? [0, job.gpus_max] : undefined, marks, bands, value: job.ngpus ? `${job.ngpus} now` : '', unit: ' GPUs' });
  if (reports && reports.rows.length) {
    const loss = column(reports, 'loss'), metric = column(reports, 'metric'), step = column(reports, 'step_s').map(([t, v]) => [t, v * 1000]), memory = column(reports, 'memory_mib').map(([t, v]) => [t, v / 1024]), frozen = column(reports, 'nfrozen');
    const progress = column(reports, 'progress'), speed = throughput(reports);
    chart('Loss', 'ok', loss, { value: loss.length ? number(last(loss)) : '' });
    chart('Metric', 'lost', metric, { value: metric.length ? number(last(metric)) : '' });
    chart(`Throughput, ${speed.unit}`, 'run', speed.points, { value: speed.points.length ? number(Math.round(last(speed.points) * 10) / 10) : '' });
    chart('Time of a step', 'move', step, { value: step.length ? `${Math.round(last(step))} ms` : '', format: v => String(Math.round(v)), unit: ' ms' });
    chart('Memory of the fullest GPU', 'wait', memory, { value: memory.length ? gib(last(memory)) : '', unit: ' GiB', cap: job.memory?.reserved_gib, capText: 'predicted' });
    if (frozen.some(p => p[1] > 0)) chart('Frozen layers', 'off', frozen, { series: { isStep: true, isArea: true }, value: String(last(frozen)) });
    if (!loss.length && progress.length) chart('Progress', 'ok', progress, { max: 1, format: percent });
  }
  return group;
}

/* --- facts, attempts ----------------------------------------------------------------- */

function facts(job) {
  const ask = job.ask || {}, memory = [];
  if (ask.mem_gib) memory.push(['memory asked for', gib(ask.mem_gib)]);
  if (job.memory) memory.push(['memory predicted', `${gib(job.memory.reserved_gib)} (${gib(job.memory.expected_gib)} to ${gib(job.memory.high_gib)})${job.memory.gpu_gib ? ` of ${gib(job.memory.gpu_gib)}` : ''}`]);
  if (job.memory?.seen_gib) memory.push(['memory seen', gib(job.memory.seen_gib)]);
  if (job.report?.memory_mib) memory.push(['memory by its reports', gib(job.report.memory_mib / 1024)]);
  if (job.measured) memory.push(['memory measured', gib(job.measured.memory_gib)], ['GPU busy', percent(job.measured.utilisation)]);
  const waited_s = (job.started_s || job.ended_s || now_s()) - job.submitted_s;
  return [['job', job.id], ['user', safeName(job.user)], ['queue', safeName(job.queue)], ['priority', job.priority],
    ['asks for', `${asks(job)} GPU${job.gpus_max > 1 ? 's' : ''}${ask.types ? ` of ${ask.types.replaceAll(',', ' or ')}` : ''}`],
    ['has', job.gpus === '-' ? 'none' : job.gpus], ['elastic', ask.is_elastic ? `yes${ask.consistency ? `, ${ask.consistency}` : ''}` : 'no'],
    ['may share', ask.may_share ? 'yes' : 'no'], ...memory,
    job.report?.nfrozen > 0 ? ['frozen layers', job.report.nfrozen] : null,
    job.report?.batch > 0 ? ['batch', job.report.batch] : null,
    ask.duration_s ? ['duration given', duration(ask.duration_s)] : null,
    ['submitted', `${moment(job.submitted_s)}`], ['waited', duration(waited_s)],
    job.ran_s ? ['ran', duration(job.ran_s)] : null, job.retries ? ['tried again', plural(job.retries, 'time')] : null,
    job.exit_status ? ['exit status', job.exit_status] : null,
    ask.run ? ['command', safeName(ask.run.join(' ')).slice(0, 4000)] : null, ask.workdir ? ['directory', safeName(ask.workdir)] : null]
    .filter(Boolean).map(([name, value]) => [el('dt', {}, name), el('dd', { class: ['has', 'command', 'directory'].includes(name) ? 'mono' : null }, value)]);
}
const attempts = job => el('table', { class: 'plain' }, el('thead', {}, el('tr', {}, ['#', 'GPUs', 'started', 'ran', 'end', 'stopped by'].map(t => el('th', { scope: 'col' }, t)))),
  el('tbody', {}, [...(job.attempts || [])].reverse().slice(0, 50).map(a => el('tr', {}, el('td', {}, a.attempt), el('td', { class: 'mono' }, a.gpus), el('td', {}, moment(a.started_s)),
    el('td', {}, duration((a.ended_s || now_s()) - a.started_s)), el('td', {}, a.end ? `${a.end}${a.exit_status ? ` (${a.exit_status})` : ''}` : 'runs'), el('td', {}, causeOf(a))))));

/* --- why and what if ------------------------------------------------------------------- */

/* The job file with another number of GPUs. */
export const withGpus = (file, gpus) => (/^gpus:.*$/m.test(file) ? file.replace(/^gpus:.*$/m, `gpus: ${gpus}`) : `${file}gpus: ${gpus}\n`);

function whatIf(job, answer) {
  const gpus = el('input', { type: 'number', min: '1', max: '100000', value: String(job.gpus_min), 'aria-label': 'GPUs' });
  const ask = async () => {
    swap(answer, el('p', { class: 'dim' }, 'Simulating …'));
    try {
      swap(answer, planAnswer(await post('/plan', withGpus(job.file, gpus.value), { type: 'application/yaml' })));
    } catch (error) { swap(answer, el('p', { class: 't-bad' }, safeName(error.message))); }
  };
  return el('form', { class: 'bar', onsubmit: event => { event.preventDefault(); ask(); } }, 'What if a copy of it asked for ', gpus, ' GPUs? ', el('button', { class: 'btn', type: 'submit' }, 'Ask'));
}

export function job(main, query, id) {
  const title = el('h1'), pill = el('span'), actions = el('span', { class: 'bar' }), say = el('p', { class: 'say' }), bar = el('div'), note = el('p', { class: 't-bad', role: 'alert' });
  const lifeBox = el('div', { class: 'in' }), lifeNote = el('span', { class: 'dim' }), factBox = el('dl', { class: 'facts' }), whyBox = el('div', { class: 'in' }), ifBox = el('div', { class: 'in' });
  const eventBox = el('div', { class: 'events' }), attemptBox = el('div', { class: 'scroll' }), logs = { panel: null };
  const crumb = el('div', { class: 'crumb' }, el('a', { href: '#/jobs' }, 'Jobs'), ` / ${id}`);
  const left = el('div', { class: 'stack' }), right = el('div', { class: 'stack' });
  main.replaceChildren(crumb, el('div', { class: 'jh' }, title, pill, el('span', { class: 'grow' }), actions), say, bar, note, el('div', { class: 'cols' }, left, right));
  title.textContent = `Job ${id}`;
  let whole = null, reports = null, events = [], why = null, timer = 0, isClosed = false, seenEvent = -1, hasForm = false;

  async function act(verb, question, detail, yes) {
    if (question && !await confirmAction(question, detail, yes)) return;
    try { await post(`/jobs/${whole.id}/${verb}`); note.textContent = ''; } catch (error) { note.textContent = safeName(error.message); }
    load();
  }
  function buttons(job_) {
    const isOff = store.link === 'lost', list = [el('a', { class: 'btn', href: `#/timeline?job=${job_.id}` }, 'On the timeline')];
    if (!isOver(job_) && mayChange(job_)) {
      list.push(el('button', { class: 'btn', type: 'button', disabled: isOff, onclick: () => act(job_.held ? 'release' : 'hold') }, job_.held ? 'Release' : 'Hold'));
      const loses = job_.state === 'pending' ? 'It has not started; nothing is lost.' : job_.ask?.can_checkpoint || job_.ask?.is_elastic ? 'It is asked to write a checkpoint, then it ends.' : `It writes no checkpoint: ${duration(job_.ran_s || 0)} of work are lost.`;
      list.push(el('button', { class: 'btn bad', type: 'button', disabled: isOff || job_.ending, onclick: () => act('cancel', `Cancel job ${job_.id} (${safeName(job_.name)})?`, loses, 'Cancel the job') }, job_.ending ? 'Ending' : 'Cancel'));
    }
    return list;
  }
  function draw() {
    if (!whole) return;
    const row = store.jobs.get(whole.id), shown = { ...whole, ...(row || {}) }, seen = store.forecast.get(whole.id);
    title.textContent = safeName(shown.name);
    swap(pill, statePill(shown));
    swap(say, sentence(shown, seen));
    swap(bar, shown.progress !== undefined && !isOver(shown) ? el('div', { class: 'track', role: 'progressbar', 'aria-label': 'done', 'aria-valuenow': Math.round(shown.progress * 100) }, el('i', { style: { width: `${shown.progress * 100}%` } }), el('span', {}, `${percent(shown.progress)} done`)) : null);
    if (actions.dataset.state !== `${shown.state}${shown.held}${shown.ending}${store.link}`) { actions.dataset.state = `${shown.state}${shown.held}${shown.ending}${store.link}`; actions.replaceChildren(...buttons(shown)); }
    swap(factBox, facts(shown));
    const width_px = lifeBox.clientWidth - 28;
    if (width_px > 100 && !lifeBox.matches(':hover')) lifeBox.replaceChildren(...life(shown, seen, reports, events, width_px));
    const nattempts = (whole.attempts || []).length;
    lifeNote.textContent = `${plural(nattempts, 'attempt')}${reports?.kept ? `, ${count(reports.kept)} reports kept` : ''}`;
    swap(attemptBox, nattempts ? attempts(whole) : el('div', { class: 'empty' }, 'It has not started yet.'));
    swap(eventBox, events.filter(e => !IS_NOISE.has(e.kind)).slice(0, 40).map(e => eventRow({ ...e, job: undefined })));
    if (logs.panel) logs.panel.box.hidden = !nattempts && !shown.attempt;
    if (why) swap(whyBox, el('p', {}, safeName(why.text)), why.next ? el('p', { class: 't-run' }, safeName(why.next)) : null, (why.not_merged || []).map(text => el('p', { class: 'dim' }, safeName(text))));
    whyBox.parentElement.hidden = !why || isOver(shown);
    if (!hasForm && whole.file && !isOver(shown)) { hasForm = true; const answer = el('div', { 'aria-live': 'polite' }); ifBox.append(whatIf(whole, answer), answer); }
    ifBox.parentElement.hidden = isOver(shown) || !whole.file;
  }
  function build() {
    if (mayChange(whole)) logs.panel = logPanel(whole.id, () => !isClosed && !!whole && !isOver(whole));
    left.replaceChildren(panel('Life', lifeNote, lifeBox), logs.panel ? logs.panel.box : el('section', { class: 'panel' }, el('div', { class: 'empty' }, 'The output of a job is shown to its user and to operators.')), panel('Attempts', '', attemptBox));
    right.replaceChildren(panel('Facts', '', el('div', { class: 'in' }, factBox)), panel('Why', '', whyBox), panel('What if', '', ifBox), panel('What happened', '', eventBox));
  }
  async function load() {
    clearTimeout(timer);
    try {
      const got = await get(`/jobs/${encodeURIComponent(id)}`);
      if (isClosed) return;
      const isFirst = whole === null;
      whole = got;
      seenEvent = store.lastEvent;
      if (isFirst) build();
      const none = () => null;
      [reports, events, why] = await Promise.all([mayChange(whole) ? get(`/jobs/${whole.id}/reports`).catch(none) : null,
        get(`/events?newest=1&job=${whole.id}&limit=300`).then(page => page.events).catch(() => events), isOver(whole) ? null : get(`/jobs/${whole.id}/why`).catch(none)]);
      draw();
    } catch (error) {
      if (error.status === 404 || error.status === 400) {
        main.replaceChildren(el('section', { class: 'panel' }, el('div', { class: 'empty' }, safeName(error.message), ' ', el('a', { href: '#/jobs' }, 'All jobs'))));
        return;
      }
    }
    if (!isClosed && (!whole || !isOver(whole))) timer = setTimeout(load, AGAIN_MS);
  }
  load();
  return {
    title: `Job ${id}`,
    update() {
      draw();
      if (whole && store.events.some(e => e.id > seenEvent && e.job === whole.id)) { seenEvent = store.lastEvent; load(); }
    },
    resize: draw, close() { isClosed = true; clearTimeout(timer); logs.panel?.close(); },
  };
}
