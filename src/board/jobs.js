/* jobs.js - the queue and the other lists of jobs: where am I, and why?
 *
 * Three lists: waiting (in the order in which the forecast sees them start),
 * running, finished (the newest first). The address has the list and the filter.
 * Rows keep their places while the reader is at the table; a button says how
 * much has changed since, and puts the list in order.
 */
import { el, choice } from './dom.js';
import { store, now_s, waiting, running, over, loadOver } from './store.js';
import { count, duration, percent, asks, safeName, plural } from './words.js';
import { rangeBar, progressBar } from './charts.js';
import { makeTable } from './table.js';
import { jobLink, jobHref, statePill } from './shared.js';

const LISTS = { waiting, running, finished: over };

/* "resnet user:ann reason:capacity": every word has to fit. */
export function makeFilter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return job => words.every(word => {
    const [, key, value] = word.match(/^(user|queue|reason|state|id):(.+)$/) || [];
    if (key) return String(job[key]).toLowerCase() === value;
    return job.name.toLowerCase().includes(word) || String(job.id) === word || job.user.toLowerCase() === word;
  });
}

function startCell(job, longest_s) {
  const seen = store.forecast.get(job.id);
  if (job.reason === 'held' || job.reason === 'never') return el('span', { class: 'dim' }, job.reason === 'held' ? 'held' : 'never');
  if (!seen?.start_at_s) return el('span', { class: 'dim', title: seen?.hangs_on ? `depends on the end of job ${seen.hangs_on}, whose duration is not known` : store.forecastStopped || 'the forecast does not see it start' }, 'not known');
  return el('span', { class: 'rng' }, rangeBar(now_s(), longest_s, seen.start_range_s, seen.start_at_s), duration(seen.start_at_s - now_s()));
}
function endCell(job) {
  const seen = store.forecast.get(job.id), left = seen?.finish_at_s ? duration(seen.finish_at_s - now_s()) : '';
  if (job.progress === undefined) return el('span', { class: 'dim' }, left ? `${left} left` : 'no reports');
  return el('span', { class: 'rng' }, progressBar(job.progress), `${percent(job.progress)}${left ? `, ${left}` : ''}`);
}

function columns(list) {
  let longest_s = 3600;
  for (const seen of store.forecast.values()) if (seen.start_range_s?.[1]) longest_s = Math.max(longest_s, seen.start_range_s[1] - now_s());
  const dim = text => el('span', { class: 'dim', title: text }, text);
  const common = [
    { title: list === 'waiting' ? '#' : 'id', className: 'c-id', cell: job => dim(String(list === 'waiting' ? store.forecast.get(job.id)?.position ?? '–' : job.id)) },
    { title: 'job', className: 'c-name', cell: jobLink },
    { title: 'user', className: 'c-user', cell: job => safeName(job.user) },
    { title: 'queue', className: 'c-queue', cell: job => safeName(job.queue) },
    { title: 'GPUs', className: 'c-gpus', cell: job => (list === 'running' && job.gpus_min !== job.gpus_max ? `${job.ngpus} of ${asks(job)}` : asks(job)) },
    { title: 'state', className: 'c-state', cell: statePill },
  ];
  const rest = {
    waiting: [{ title: 'why', className: 'c-why', cell: job => dim(safeName(job.why)) }, { title: 'waited', className: 'c-time', cell: job => duration(now_s() - job.submitted_s) }, { title: 'starts in', className: 'c-last', cell: job => startCell(job, longest_s) }],
    running: [{ title: 'on', className: 'c-why', cell: job => dim(job.gpus) }, { title: 'ran', className: 'c-time', cell: job => duration(job.ran_s || 0) }, { title: 'done', className: 'c-last', cell: endCell }],
    finished: [{ title: 'how it ended', className: 'c-why', cell: job => dim(safeName(job.why)) }, { title: 'ran', className: 'c-time', cell: job => (job.ran_s ? duration(job.ran_s) : '–') }, { title: 'ended', className: 'c-last', cell: job => `${duration(now_s() - job.ended_s)} ago` }],
  };
  return [...common, ...rest[list]];
}

export function jobs(main, query) {
  const list = LISTS[query.get('state')] ? query.get('state') : 'waiting';
  let filter = query.get('q') || '';
  const input = el('input', { type: 'search', class: 'filter', placeholder: 'name, user:ann, reason:capacity', 'aria-label': 'Filter', value: filter, maxlength: '200' });
  const tabs = el('span'), total = el('span', { class: 'dim' }), order = el('button', { class: 'btn pillbtn', type: 'button', hidden: true });
  const more = el('button', { class: 'btn', type: 'button', hidden: true, onclick: () => loadOver(true).then(() => update(true)) }, 'Load older jobs');
  const table = makeTable(`${list} jobs`, columns(list), job => { location.hash = jobHref(job); });
  const none = el('div', { class: 'empty' });
  main.replaceChildren(el('h1', { class: 'sr' }, 'Jobs'),
    el('div', { class: 'bar' }, tabs, input, total, order, el('span', { class: 'grow' }), el('span', { class: 'dim wide' }, el('kbd', {}, 'j'), ' ', el('kbd', {}, 'k'), ' to move, ', el('kbd', {}, 'Enter'), ' to open')),
    el('section', { class: `panel list-${list}` }, table.box, none), more);
  order.addEventListener('click', () => update(true));
  input.addEventListener('input', () => {
    filter = input.value;
    history.replaceState(null, '', `#/jobs?${new URLSearchParams({ state: list, ...(filter ? { q: filter } : {}) })}`);
    table.box.scrollTop = 0;
    update(true);
  });

  /* Rows in their places with what is new; `isOrdered`: in the order of now. */
  function update(isOrdered) {
    const all = LISTS[list](), fits = makeFilter(filter), wanted = all.filter(fits), ids = new Set(wanted.map(job => job.id));
    const shown = table.rows().map(row => row.id);
    tabs.replaceChildren(choice(Object.keys(LISTS).map(k => [k, `${k} ${count(LISTS[k]().length)}`]), list, k => { location.hash = `#/jobs?state=${k}`; }));
    total.textContent = `${count(wanted.length)} of ${count(all.length)}`;
    const isSame = shown.length === wanted.length && shown.every((id, i) => id === wanted[i].id);
    if (isOrdered === true || (!isSame && !table.isTouched()) || !shown.length) {
      table.setRows(wanted);
      order.hidden = true;
    } else {
      const places = new Set(shown), news = wanted.filter(job => !places.has(job.id)).length + shown.filter(id => !ids.has(id)).length;
      table.rows().forEach((row, i, rows) => {
        const job = store.jobs.get(row.id) || row;
        rows[i] = ids.has(row.id) ? job : { ...job, isGone: true };
      });
      order.hidden = isSame;
      order.textContent = news ? `${plural(news, 'change')}: show` : 'order changed: show';
      table.refresh();
    }
    none.hidden = wanted.length > 0;
    none.textContent = all.length ? 'No job fits the filter.' : `No ${list} job.`;
    more.hidden = list !== 'finished' || !store.nextOver;
  }
  return { title: `Jobs: ${list}`, update, keys: table.keys };
}
