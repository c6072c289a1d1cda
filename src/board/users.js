/* users.js - who used how much of the last day, and who holds and waits now. */
import { el, panel, swap } from './dom.js';
import { store, now_s, usage, over } from './store.js';
import { count, number, percent, safeName, isOver } from './words.js';
import { setColourBy, tintOf } from './shared.js';
import { get } from './net.js';

const DAY_S = 86400;

function table() {
  const from_s = now_s() - DAY_S, used = usage(from_s), users = new Map();
  const of = user => { if (!users.has(user)) users.set(user, { used_s: used.get(user) || 0, holds: 0, runs: 0, waits: 0, asked: 0, done: 0, failed: 0 }); return users.get(user); };
  for (const user of used.keys()) of(user);
  for (const job of store.jobs.values()) {
    if (isOver(job)) continue;
    const row = of(job.user);
    if (job.state === 'pending') { row.waits++; row.asked += job.gpus_min; }
    else { row.runs++; row.holds += job.ngpus; }
  }
  for (const job of over()) if (job.ended_s > from_s) of(job.user)[job.state === 'succeeded' ? 'done' : 'failed'] += job.state === 'succeeded' || job.state === 'failed' || job.state === 'lost' ? 1 : 0;
  const all_s = [...users.values()].reduce((n, u) => n + u.used_s, 0), most_s = Math.max(1, ...[...users.values()].map(u => u.used_s));
  const rows = [...users].sort((a, b) => b[1].used_s - a[1].used_s || (a[0] < b[0] ? -1 : 1));
  if (!rows.length) return el('div', { class: 'empty' }, 'No job of the last day.');
  setColourBy('user');
  const cell = value => el('td', { class: 'num' }, value ? count(value) : el('span', { class: 'dim' }, '–'));
  return el('table', { class: 'plain' }, el('thead', {}, el('tr', {}, ['user', 'GPU hours', 'share', '', 'holds', 'runs', 'waits', 'asks for', 'done', 'failed'].map((t, i) => el('th', { scope: 'col', class: i === 3 ? 'wide' : i ? 'num' : null }, t)))),
    el('tbody', {}, rows.map(([user, u]) => el('tr', {},
      el('td', {}, el('a', { href: `#/jobs?${new URLSearchParams({ state: u.waits ? 'waiting' : u.runs ? 'running' : 'finished', q: `user:${user}` })}` }, safeName(user))),
      el('td', { class: 'num' }, number(Math.round(u.used_s / 360) / 10)), el('td', { class: 'num' }, all_s ? percent(u.used_s / all_s) : '–'),
      el('td', { class: 'wide' }, el('span', { class: `b ${tintOf({ user })}`, style: { width: `${Math.max(1, u.used_s / most_s * 100)}%` } })),
      cell(u.holds), cell(u.runs), cell(u.waits), cell(u.asked), cell(u.done), cell(u.failed)))));
}

/* Projects and their members, as `firn shares` prints them; null without --shares. */
function claims(shares) {
  if (!shares || !shares.enabled) return null;
  const cell = text => el('td', { class: 'num' }, text);
  const quota = (used, most) => (most ? `${number(used)} of ${number(most)}` : number(used));
  const tenth = value => Math.round(value * 10) / 10;
  const row = (a, indent) => el('tr', {}, el('td', {}, `${indent}${safeName(a.name)}`), cell(number(a.share)), cell(quota(a.gpus, a.quota_gpus)),
    cell(number(tenth(a.past_gpus))), cell(percent(a.part)), cell(quota(tenth(a.window_gpu_hours), a.quota_gpu_hours)), el('td', {}, a.borrow ? 'yes' : 'no'));
  const of = kind => shares.accounts.filter(a => a.kind === kind);
  const rows = of('project').flatMap(p => [row(p, ''), ...of('member').filter(m => m.project === p.name).map(m => row(m, '\u2003'))]);
  return el('table', { class: 'plain' }, el('thead', {}, el('tr', {}, ['project, user', 'share', 'GPUs', 'past GPUs', 'part', 'GPU hours of the window', 'borrows'].map((t, i) => el('th', { scope: 'col', class: i && i < 6 ? 'num' : null }, t)))), el('tbody', {}, rows));
}

const SHARES_S = 10;

export function users(main) {
  const body = el('div', { class: 'scroll' }), note = el('p', { class: 'dim' }), below = el('div', { class: 'scroll' }), box = panel('Shares and quotas', 'as firn shares prints them', below);
  box.hidden = true;
  let asked_s = 0;
  /* At most every SHARES_S; a firnd that cannot answer shows no table. */
  async function ask() {
    if (now_s() < asked_s + SHARES_S) return;
    asked_s = now_s();
    const table = claims(await get('/shares').catch(() => null));
    box.hidden = table === null;
    if (table) swap(below, table);
  }
  main.replaceChildren(el('div', { class: 'bar' }, el('h1', {}, 'Users'), el('span', { class: 'dim' }, 'the last 24 hours; half of a GPU counts as half')), el('section', { class: 'panel' }, body), note, box);
  function update() {
    swap(body, table());
    ask();
    note.textContent = store.spansSince_s > now_s() - DAY_S + 60 ? 'firnd has more changes than it shows at once: the first hours are left out.' : '';
  }
  return { title: 'Users', update };
}
