/* events.js - what happened, the newest first, by kind or job; older pages on
 * demand. */
import { el } from './dom.js';
import { get } from './net.js';
import { store, jobOf } from './store.js';
import { eventRow, IS_NOISE } from './shared.js';
import { count, day } from './words.js';

export function events(main, query) {
  const kind = query.get('kind') || '', older = [];
  let next, isEnd = false;
  const kinds = el('select', { 'aria-label': 'Kind of event', onchange: () => { location.hash = kinds.value ? `#/events?kind=${encodeURIComponent(kinds.value)}` : '#/events'; } });
  const list = el('div', { class: 'events in' }), total = el('span', { class: 'dim' });
  const more = el('button', { class: 'btn', type: 'button', onclick: load }, 'Load older events');
  main.replaceChildren(el('div', { class: 'bar' }, el('h1', {}, 'Events'), kinds, total), el('section', { class: 'panel' }, list), more);

  async function load() {
    more.disabled = true;
    const first = older.length ? next : store.events[0]?.id ?? store.lastEvent + 1;
    const page = await get(`/events?before=${first}&limit=200${kind ? `&kind=${encodeURIComponent(kind)}` : ''}`);
    older.push(...page.events);
    next = page.next;
    isEnd = next === undefined;
    more.disabled = false;
    update();
  }
  function update() {
    const all = [...store.events].reverse().concat(older);
    const names = ['', ...new Set(all.map(e => e.kind).concat(kind || []))].sort();
    if (kinds.options.length !== names.length) {
      kinds.replaceChildren(...names.map(name => el('option', { value: name, selected: name === kind }, name || 'all kinds')));
      kinds.value = kind;
    }
    const shown = all.filter(e => (kind ? e.kind === kind : !IS_NOISE.has(e.kind)));
    let last = '';
    list.replaceChildren(...shown.flatMap(e => {
      const at = day(e.at_s), rows = at === last ? [] : [el('h3', {}, at)];
      last = at;
      return [...rows, eventRow(e, jobOf(e.job))];
    }));
    total.textContent = `${count(shown.length)} shown`;
    more.hidden = isEnd;
  }
  return { title: 'Events', update };
}
