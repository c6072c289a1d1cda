/* words.js - numbers, times, states and GPUs as people read them.
 *
 * The words are those of the command line: reasons and texts come from firnd
 * and are shown as they are. Times of day are the browser's; durations count
 * from firnd's clock, which store.js knows.
 */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  const minutes = Math.round(s / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60), rest = minutes % 60;
  if (hours < 48) return hours < 10 && rest ? `${hours} h ${String(rest).padStart(2, '0')}` : `${hours} h`;
  return `${Math.round(hours / 24)} d`;
}
const two = n => String(n).padStart(2, '0');
export function clock(at_s, withSeconds) {
  const d = new Date(at_s * 1000);
  return `${two(d.getHours())}:${two(d.getMinutes())}${withSeconds ? `:${two(d.getSeconds())}` : ''}`;
}
export const day = at_s => new Date(at_s * 1000).toLocaleDateString('en-GB', { weekday: 'short', day: 'numeric', month: 'short' });
export const moment = at_s => `${day(at_s)} ${clock(at_s)}`;
export const count = n => Number(n).toLocaleString('en-US').replace(/,/g, '\u2009');
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;
export const sentenceCase = text => text.charAt(0).toUpperCase() + text.slice(1);
export const percent = share => `${Math.round(share * 100)} %`;
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2);
  return String(Math.round(value * 1000) / 1000);
}
export function gib(value) {
  return value >= 10 ? `${Math.round(value)} GiB` : `${Math.round(value * 10) / 10} GiB`;
}
/* " (36 min to 50 min)" of moments, seen from now; nothing for a narrow range. */
export function span(range_s, now_s) {
  const [a, b] = range_s.map(x => duration(x - now_s));
  return a === b ? '' : ` (${a} to ${b})`;
}

/* --- states: a word, a colour class and a mark, never the colour alone ----- */

const STATES = {
  pending: ['waits', 'wait', '○'], starting: ['starts', 'move', '◔'], running: ['runs', 'run', '▶'],
  resizing: ['resizes', 'move', '↔'], preempting: ['gives way', 'move', '⇠'], completing: ['ends', 'move', '◕'],
  succeeded: ['done', 'ok', '✓'], failed: ['failed', 'bad', '✕'], cancelled: ['cancelled', 'off', '–'], lost: ['lost', 'lost', '!'],
};
export const LIVING = ['pending', 'starting', 'running', 'resizing', 'preempting', 'completing'];
export const OVER = ['succeeded', 'failed', 'cancelled', 'lost'];
export const isOver = job => OVER.includes(job.state);
export function stateOf(job) {
  if (job.state === 'pending' && job.reason === 'held') return ['held', 'off', '‖'];
  if (job.state === 'pending' && job.reason === 'never') return ['cannot run', 'bad', '✕'];
  return STATES[job.state] || [job.state, 'off', '·'];
}
export const asks = job => (job.gpus_min === job.gpus_max ? String(job.gpus_min) : `${job.gpus_min}–${job.gpus_max}`);

/* --- GPUs: "n0[0-3] n1[0,2]~" into parts; "~": it holds halves of them ------ */

const PART = /(\S+?)\[([0-9,-]+)\]/g;
export function parseGpus(text) {
  const parts = [], isShared = String(text || '').includes('~');
  for (const [, node, list] of String(text || '').matchAll(PART)) {
    const gpus = [];
    for (const piece of list.split(',')) {
      const [from, to] = piece.split('-').map(Number);
      for (let g = from; g <= (Number.isFinite(to) ? to : from) && gpus.length < 4096; g++) gpus.push(g);
    }
    parts.push({ node, gpus, isShared });
  }
  return parts;
}
export const countGpus = text => parseGpus(text).reduce((n, part) => n + part.gpus.length, 0);

/* --- bytes of a log as text that can do nothing ---------------------------- */

/* Control and bidirectional characters become visible marks; long lines are
 * cut and say so. */
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const LINE_MOST = 4000;
export function safeLine(line) {
  const plain = line.replace(/\u001b\[[0-9;]*[A-Za-z]/g, '').replace(CONTROL, c =>
    c < '\u0020' ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : '\ufffd').replace(DIRECTION, '\ufffd');
  return plain.length > LINE_MOST ? `${plain.slice(0, LINE_MOST)} … (${count(plain.length - LINE_MOST)} more characters)` : plain;
}
/* A name in a line of its own: no control, no change of direction. */
export const safeName = text => String(text).replace(CONTROL, '\ufffd').replace(DIRECTION, '\ufffd');
