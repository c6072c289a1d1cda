/* store.js - jobs, nodes, forecast and history as this page knows them.
 *
 * Everything is loaded once, behind the number of the newest event; then events
 * say which jobs are stale, and these alone are asked for again:
 *
 *     event of job 7 -> stale {7} -> GET one row of the list -> jobs[7] -> views
 *
 * (1) The number of the newest event is read before anything else, so that no
 *     change falls between the load and the stream.
 * (2) With more than FEW stale jobs the whole list of living jobs is asked for,
 *     and never sooner than COST times what the last list took: a page never
 *     keeps firnd busy.
 * (3) `now_s()` is firnd's clock: a browser whose clock is wrong shows right
 *     ages.
 */
import { get, follow } from './net.js';
import { LIVING, OVER, isOver, parseGpus, countGpus } from './words.js';

const FEW = 24, COST = 10, SOON_MS = 400, FORECAST_MS = 5000, EVENTS_KEPT = 500, PAGE = 1000, OVER_MOST = 500, SLOW_MS = 30000;

export const store = {
  jobs: new Map(), nodes: [], policy: { name: '', summary: '' }, events: [],
  forecast: new Map(), forecastAt_s: 0, forecastStopped: null, spans: [], spansSince_s: 0, past: new Map(),
  me: { user: '', role: 'viewer' }, link: 'connecting', lostSince_s: 0, trouble: '', lastEvent: 0, isLoaded: false, nextOver: undefined,
  ahead_s: 0, version: 0,
};
const listeners = new Set();
export function onChange(listener) { listeners.add(listener); return () => listeners.delete(listener); }
let isTold = false;
/* Tells the views once for all changes of a moment. */
export function changed() {
  store.version++;
  if (isTold) return;
  isTold = true;
  setTimeout(() => requestAnimationFrame(() => { isTold = false; for (const l of listeners) l(); }), document.hidden ? 1000 : 60);
}
export const now_s = () => Date.now() / 1000 + store.ahead_s;

/* --- loading ---------------------------------------------------------------- */

function keepJob(job) {
  job.ngpus = countGpus(job.gpus);
  store.jobs.set(job.id, job);
}

async function loadHealth() {
  const health = await get('/health');
  store.ahead_s = health.now_s - Date.now() / 1000;
  store.trouble = health.trouble || '';
}
async function loadNodes() { const answer = await get('/nodes'); store.nodes = answer.nodes; store.trouble = answer.trouble || ''; }

let listCost_ms = 0, listEnd_ms = 0;
async function loadLiving() {
  const began_ms = performance.now(), seen = new Set();
  let after = 0;
  for (;;) {
    const page = await get(`/jobs?state=${LIVING.join(',')}&limit=${PAGE}&after=${after}`);
    for (const job of page.jobs) { keepJob(job); seen.add(job.id); }
    changed();
    if (page.next === undefined) break;
    after = page.next;
  }
  const gone = [...store.jobs.values()].filter(job => !isOver(job) && !seen.has(job.id));
  for (const job of gone.slice(0, FEW)) stale.add(job.id);
  for (const job of gone.slice(FEW)) store.jobs.delete(job.id);
  listEnd_ms = performance.now();
  listCost_ms = listEnd_ms - began_ms;
}
/* The newest finished jobs, or the page behind the oldest that is known. */
export async function loadOver(isOlder) {
  const before = isOlder && store.nextOver ? `&before=${store.nextOver}` : '&newest=1';
  const page = await get(`/jobs?state=${OVER.join(',')}${before}&limit=${OVER_MOST}`);
  page.jobs.forEach(keepJob);
  if (isOlder || !store.isLoaded) store.nextOver = page.next;
  changed();
}

export async function loadForecast() {
  const answer = await get('/forecast');
  store.forecast = new Map(answer.jobs.map(job => [job.id, job]));
  store.forecastAt_s = answer.at_s;
  store.forecastStopped = answer.stopped;
  changed();
}
/* Spans as objects with their parts, once. */
export async function loadHistory() {
  const answer = await get('/history');
  store.past = new Map(answer.jobs.map(job => [job.id, job]));
  store.spansSince_s = answer.since_s;
  store.spans = answer.spans.map(([job, from_s, to_s, gpus]) => {
    const parts = parseGpus(gpus);
    return { job, from_s, to_s, parts, ngpus: parts.reduce((n, p) => n + p.gpus.length, 0) };
  });
  changed();
}

/* May this session change the job? firnd decides; this hides what it would refuse. */
export const mayChange = job => store.me.role === 'operator' || (store.me.role === 'user' && store.me.user === job.user);

/* A job that may be known from the history only. */
export const jobOf = id => store.jobs.get(id) || store.past.get(id);

/* --- events ------------------------------------------------------------------ */

const stale = new Set();
let isNodesStale = false, isForecastStale = false, timer = 0, forecastTimer = 0, forecastEnd_ms = 0;

function soon() { if (!timer) timer = setTimeout(refresh, document.hidden ? 5000 : SOON_MS); }

async function refreshForecast() {
  forecastTimer = 0;
  isForecastStale = false;
  try { await loadForecast(); } catch { /* shown as older than it should be */ }
  forecastEnd_ms = performance.now();
  if (isForecastStale) forecastSoon();
}
function forecastSoon() {
  isForecastStale = true;
  if (!forecastTimer) forecastTimer = setTimeout(refreshForecast, Math.max(SOON_MS, forecastEnd_ms + FORECAST_MS - performance.now()));
}

/* One row of the list, by its id. */
async function loadJob(id) {
  const page = await get(`/jobs?after=${id - 1}&limit=1`);
  if (page.jobs.length && page.jobs[0].id === id) keepJob(page.jobs[0]);
  else store.jobs.delete(id);
}

async function refresh() {
  const ids = [...stale];
  try {
    if (isNodesStale) { isNodesStale = false; await loadNodes(); }
    if (ids.length > FEW) {
      const wait_ms = listEnd_ms + COST * listCost_ms - performance.now();
      if (wait_ms > 0) { timer = setTimeout(refresh, wait_ms); changed(); return; }
      stale.clear();
      await loadLiving();
      if (store.isLoaded) await loadOver();
    } else {
      ids.forEach(id => stale.delete(id));
      await Promise.all(ids.map(loadJob));
    }
  } catch { ids.forEach(id => stale.add(id)); }
  timer = 0;
  if (stale.size || isNodesStale) soon();
  changed();
}

/* Continues the spans of the history by an event of kind "gpus". */
function noteGpus(event) {
  const open = store.spans.findLast ? store.spans.findLast(s => s.job === event.job && s.to_s === null)
    : [...store.spans].reverse().find(s => s.job === event.job && s.to_s === null);
  if (open) open.to_s = event.at_s;
  const parts = parseGpus(event.text);
  if (parts.length)
    store.spans.push({ job: event.job, from_s: event.at_s, to_s: null, parts, ngpus: parts.reduce((n, p) => n + p.gpus.length, 0) });
}

function take(event) {
  if (event.id <= store.lastEvent) return;
  store.lastEvent = event.id;
  store.events.push(event);
  if (store.events.length > EVENTS_KEPT) store.events.shift();
  if (event.job !== undefined) stale.add(event.job);
  if (event.kind === 'gpus') noteGpus(event);
  if (event.kind === 'gpus' || event.job === undefined) isNodesStale = true;
  forecastSoon();
  soon();
  changed();
}

function heard(state, error) {
  if (state === 'live' && store.link === 'lost') { isNodesStale = true; loadHealth().catch(() => {}); loadLiving().catch(() => {}); soon(); }
  if (state === 'lost' && store.link !== 'lost') store.lostSince_s = now_s();
  store.link = state;
  store.linkError = error;
  changed();
}

export async function start() {
  await loadHealth();
  const newest = await get('/events?newest=1&limit=200');
  store.lastEvent = newest.last;
  store.events = newest.events.reverse();
  await Promise.all([loadNodes(), get('/policy').then(p => { store.policy = p; }), get('/whoami').then(me => { store.me = me; }), loadLiving(), loadHistory()]);
  store.link = 'live';
  changed();
  follow(() => store.lastEvent, take, heard);
  loadForecast().catch(() => {});
  await loadOver();
  store.isLoaded = true;
  changed();
  /* What changes without an event: nodes that come and go, and reasons. */
  setInterval(() => {
    if (document.hidden || store.link !== 'live') return;
    isNodesStale = true;
    soon();
  }, 10000);
  setInterval(() => {
    if (document.hidden || store.link !== 'live') return;
    forecastSoon();
    if (COST * listCost_ms < SLOW_MS) loadLiving().catch(() => {});
  }, SLOW_MS);
  document.addEventListener('visibilitychange', () => { if (!document.hidden) { soon(); changed(); } });
}

/* --- what views ask ------------------------------------------------------------ */

const byPosition = (a, b) => (place(a) - place(b)) || a.id - b.id;
const place = job => store.forecast.get(job.id)?.position ?? 1e9;
export const waiting = () => [...store.jobs.values()].filter(job => job.state === 'pending').sort(byPosition);
export const running = () => [...store.jobs.values()].filter(job => !isOver(job) && job.state !== 'pending').sort((a, b) => a.id - b.id);
export const over = () => [...store.jobs.values()].filter(isOver).sort((a, b) => b.ended_s - a.ended_s || b.id - a.id);

export function capacity() {
  const c = { all: 0, held: 0, free: 0, outside: 0, drained: 0, down: 0 };
  for (const node of store.nodes) {
    c.all += node.gpus;
    if (!node.up) { c.down += node.gpus; continue; }
    c.outside += node.outside;
    c[node.drained ? 'drained' : 'free'] += node.free;
    c.held += node.gpus - node.free - node.outside;
  }
  return c;
}

/* GPUs held over time, by the spans, as steps [at_s, gpus] from `from_s` on. A
 * GPU with two jobs counts once for each half. */
export function heldSteps(from_s) {
  const changes = [];
  for (const span of store.spans) {
    const to_s = span.to_s ?? Infinity, n = span.parts.reduce((sum, p) => sum + p.gpus.length * (p.isShared ? 0.5 : 1), 0);
    if (to_s <= from_s) continue;
    changes.push([Math.max(from_s, span.from_s), n]);
    if (Number.isFinite(to_s)) changes.push([to_s, -n]);
  }
  return steps(changes, from_s);
}
/* GPUs that waiting jobs asked for, over time: from their submit or the end of
 * a span to the start of the next. */
export function askedSteps(from_s) {
  const changes = [], last = new Map();
  for (const span of [...store.spans].sort((a, b) => a.from_s - b.from_s)) {
    const job = jobOf(span.job);
    if (!job) continue;
    const since_s = last.get(span.job) ?? job.submitted_s;
    gap(changes, from_s, since_s, span.from_s, store.jobs.get(span.job)?.gpus_min ?? span.ngpus);
    last.set(span.job, span.to_s ?? Infinity);
  }
  for (const job of store.jobs.values())
    if (job.state === 'pending' && job.reason !== 'held' && job.reason !== 'never')
      gap(changes, from_s, last.get(job.id) ?? job.submitted_s, Infinity, job.gpus_min);
  return steps(changes, from_s);
}
function gap(changes, from_s, a_s, b_s, n) {
  if (!(b_s > a_s) || b_s <= from_s) return;
  changes.push([Math.max(from_s, a_s), n]);
  if (Number.isFinite(b_s)) changes.push([b_s, -n]);
}
function steps(changes, from_s) {
  const out = [[from_s, 0]];
  let n = 0;
  for (const [at_s, by] of changes.sort((a, b) => a[0] - b[0])) {
    n += by;
    if (out[out.length - 1][0] === at_s) out[out.length - 1][1] = n;
    else out.push([at_s, n]);
  }
  return out;
}

/* GPU seconds of each user within the spans. */
export function usage(from_s) {
  const users = new Map();
  for (const span of store.spans) {
    const job = jobOf(span.job), to_s = span.to_s ?? now_s();
    if (!job || to_s <= from_s) continue;
    const seconds = (to_s - Math.max(from_s, span.from_s)) * span.parts.reduce((n, p) => n + p.gpus.length * (p.isShared ? 0.5 : 1), 0);
    users.set(job.user, (users.get(job.user) || 0) + seconds);
  }
  return users;
}
