/* shared.js - what several views show alike: a job's link, its colour, its
 * state, an event.
 *
 * Eight colours go to the users (or queues) that used most, and stay with them
 * in this browser, so that they do not jump when the order changes. All others
 * share a ninth.
 */
import { el } from './dom.js';
import { store, now_s, usage, jobOf } from './store.js';
import { stateOf, clock, moment, safeName, isOver } from './words.js';

const COLOURS = 8, KEY = 'firn-colours';

export const jobHref = job => `#/jobs/${job.id}`;
export const jobLink = job => el('a', { class: 'nm', href: jobHref(job), title: safeName(job.name) }, safeName(job.name));
export function statePill(job) {
  const [word, tone, mark] = stateOf(job);
  return el('span', { class: `pill s-${tone}` }, el('span', { 'aria-hidden': 'true' }, mark), word);
}

/* --- colours ------------------------------------------------------------------ */

let by = 'user';
export const colourBy = () => by;
export function setColourBy(value) { by = value; }

let kept = {};
try { kept = JSON.parse(localStorage.getItem(KEY)) || {}; } catch { kept = {}; }
/* The colour of a name, 1 to 8; 0: none is left for it. */
function colourOf(kind, name) {
  const names = kept[kind] || (kept[kind] = []);
  let i = names.indexOf(name);
  if (i < 0 && names.length < COLOURS) {
    i = names.push(name) - 1;
    try { localStorage.setItem(KEY, JSON.stringify(kept)); } catch { /* a private window */ }
  }
  return i + 1;
}
/* Those that used most get theirs first. */
export function rankUsers() {
  [...usage(now_s() - 86400)].sort((a, b) => b[1] - a[1]).slice(0, COLOURS).forEach(([user]) => colourOf('user', user));
}
export function tintNumber(job) {
  if (by === 'busy') return job.utilisation === undefined ? 0 : job.utilisation < 0.05 ? 4 : job.utilisation < 0.5 ? 3 : 1;
  return colourOf(by, job[by] ?? '');
}
export const tintOf = job => `u${tintNumber(job)}`;
export function colourKey(jobs) {
  const items = by === 'busy'
    ? [['u1', 'half of the time and more'], ['u3', 'less than half'], ['u4', 'idle'], ['u0', 'not known']]
    : [...new Set(jobs.map(job => job[by] ?? ''))].map(name => [`u${colourOf(by, name)}`, safeName(name)]);
  const named = items.filter(([tint]) => tint !== 'u0' || by === 'busy').sort();
  if (by !== 'busy' && named.length < items.length) named.push(['u0', 'others']);
  return el('div', { class: 'key' }, named.map(([tint, text]) => el('span', {}, el('i', { class: tint }), text)));
}

/* --- events ------------------------------------------------------------------- */

/* Kinds that repeat what another kind says. */
export const IS_NOISE = new Set(['gpus', 'attempt', 'epoch', 'starting']);
const TONES = {
  submitted: 'off', running: 'run', starting: 'move', resized: 'move', resizing: 'move', preempting: 'wait', preempted: 'wait', pending: 'wait',
  succeeded: 'ok', failed: 'bad', cancelled: 'off', cancelling: 'off', lost: 'lost', drained: 'wait', undrained: 'ok', held: 'off', released: 'off', retry: 'wait',
};
/* The link is the job's name: a text that begins with the name goes without it. */
const shortText = (text, job) => (job && text.startsWith(`${job.name} `) ? text.slice(job.name.length + 1) : text);
export function eventRow(event, job) {
  return el('div', { class: 'ev' },
    el('time', { title: moment(event.at_s), datetime: new Date(event.at_s * 1000).toISOString() }, clock(event.at_s, true)),
    el('i', { class: `b-${TONES[event.kind] || 'off'}`, title: event.kind }),
    el('p', {}, event.job !== undefined ? [job ? jobLink(job) : el('a', { href: `#/jobs/${event.job}` }, `job ${event.job}`), ' '] : null,
      safeName(shortText(event.text, job)), event.caller && !event.text.endsWith(` by ${event.caller}`) ? el('span', { class: 'dim' }, ` (${safeName(event.caller)})`) : null,
      event.cause && event.kind !== 'gpus' ? el('span', { class: 'dim cause' }, ' · by ', causeOf(event)) : null));
}

/* What made a job leave its GPUs, and which job gets them. */
const CAUSES = { policy: 'the policy', share: 'shares of others', quota: 'a quota', consolidation: 'room on a node', drain: 'a drain', 'node-down': 'a node that is down', user: 'its user', operator: 'an operator', bounds: 'new bounds', 'time-limit': 'its time limit', idle: 'no use of its GPUs', dependency: 'a job it waited for', undone: 'an undone sharing', foreign: 'foreign processes', backend: 'the backend', partner: 'its partner' };
export function causeOf(what) {
  if (!what.cause) return [];
  const other = what.for_job === undefined ? null : jobOf(what.for_job);
  return [CAUSES[what.cause] || what.cause, what.for_job === undefined ? null : [', for ', other ? jobLink(other) : el('a', { href: `#/jobs/${what.for_job}` }, `job ${what.for_job}`)]];
}

/* What a pointer over a job says. */
export function jobTip(job) {
  if (!job) return [];
  const seen = store.forecast.get(job.id);
  return [safeName(job.name), `job ${job.id} of ${safeName(job.user)}, queue ${safeName(job.queue)}`, job.why ? safeName(job.why) : null,
    job.progress !== undefined && !isOver(job) ? `${Math.round(job.progress * 100)} % done` : null,
    seen?.finish_at_s ? `ends about ${moment(seen.finish_at_s)}` : seen?.start_at_s ? `starts about ${moment(seen.start_at_s)}` : null];
}
