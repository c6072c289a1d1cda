/* log.js - the output of a job: its end first, more on demand, as it comes.
 *
 * The last TAIL lines are asked for, then what is new behind them every second
 * while the job runs, in pieces with offsets, so that a lost connection loses
 * and repeats nothing. At most KEPT lines are in the document; the heading says
 * which ones they are. Bytes become text with replacement marks (words.js).
 */
import { el } from './dom.js';
import { request } from './net.js';
import { safeLine, count } from './words.js';

const TAIL = 400, KEPT = 2000, PIECE = 262144, EVERY_MS = 1000;

export function logPanel(id, isFollowed) {
  const lines = el('div', { class: 'log', tabindex: '0', role: 'log', 'aria-label': 'Output of the job' });
  const note = el('span', { class: 'dim' }), find = el('input', { type: 'search', placeholder: 'find', 'aria-label': 'Find in these lines', maxlength: '200' });
  const follows = el('input', { type: 'checkbox', checked: isFollowed() });
  const whole = el('button', { class: 'btn', type: 'button', onclick: () => load(0) }, 'From the start');
  const decoder = () => new TextDecoder('utf-8', { fatal: false });
  let offset = -1, first = 0, rest = '', text = decoder(), timer = 0, isClosed = false, nlines = 0, isCut = false, next = null;

  function add(line) {
    nlines++;
    const shown = safeLine(line), row = el('div', { class: /^firn: /.test(line) ? 'm' : /\b(error|exception|traceback)\b/i.test(line) ? 'e' : null }, shown || ' ');
    if (find.value && !shown.toLowerCase().includes(find.value.toLowerCase())) row.hidden = true;
    lines.append(row);
    if (lines.childElementCount > KEPT) { lines.firstElementChild.remove(); isCut = true; }
  }
  function take(bytes) {
    const isAtEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    const parts = (rest + text.decode(bytes, { stream: true })).split('\n');
    rest = parts.pop();
    if (rest.length > 100000) { parts.push(rest); rest = ''; }
    parts.forEach(add);
    if (isAtEnd && follows.checked) lines.scrollTop = lines.scrollHeight;
    say();
  }
  function say() {
    const shown = lines.querySelectorAll('div:not([hidden])').length;
    if (!nlines && !rest) note.textContent = 'it has printed nothing yet';
    else note.textContent = find.value ? `${count(shown)} of ${count(lines.childElementCount)} lines shown here` : `${isCut ? 'the last ' : ''}${count(lines.childElementCount)} lines${first > 0 ? `, from byte ${count(first)} on` : ''}`;
  }
  async function piece(query) {
    const response = await request('GET', `/jobs/${id}/logs?limit=${PIECE}${query}`);
    const bytes = await response.arrayBuffer(), header = name => Number(response.headers.get(name));
    return { bytes, offset: header('Firn-Offset'), next: header('Firn-Next-Offset'), size: header('Firn-Size') };
  }
  async function more() {
    clearTimeout(timer);
    if (isClosed) return;
    try {
      const got = await piece(offset < 0 ? `&tail=${TAIL}` : `&offset=${offset}`);
      if (offset < 0) first = got.offset;
      offset = got.next;
      take(got.bytes);
      if (got.next < got.size && nlines < KEPT) { more(); return; }
      if (got.next < got.size) { note.textContent += `; ${count(got.size - got.next)} bytes follow`; next = more; return; }
    } catch (error) {
      note.textContent = error.status ? error.message : 'the connection is lost; trying again';
    }
    if (isFollowed()) timer = setTimeout(more, EVERY_MS);
  }
  function load(from) {
    lines.replaceChildren();
    offset = from; first = from; rest = ''; text = decoder(); nlines = 0; isCut = false;
    follows.checked = false;
    more();
  }
  find.addEventListener('input', () => {
    const word = find.value.toLowerCase();
    for (const row of lines.children) row.hidden = word !== '' && !row.textContent.toLowerCase().includes(word);
    say();
  });
  lines.addEventListener('scroll', () => { if (next && lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40) { const go = next; next = null; nlines = 0; go(); } });
  more();
  return {
    box: el('section', { class: 'panel' }, el('header', {}, el('h2', {}, 'Output'), note, el('span', { class: 'grow' }), find, el('label', { class: 'dim nowrap' }, follows, ' follow'), whole), lines),
    more, close: () => { isClosed = true; clearTimeout(timer); },
  };
}
