/* table.js - a table of which only the rows in sight exist.
 *
 * (1) Rows keep their places: new data change what a row shows, not where it
 *     is. `setRows` is the only call that moves rows, and the view calls it when
 *     the reader asks for it, or while no pointer is over the table.
 * (2) About forty rows are in the document, whatever the length of the list.
 * (3) Scrolling makes only the rows that come into sight; the others stay as
 *     they are until `refresh`.
 */
import { el } from './dom.js';

export const ROW_PX = 34;
const MORE = 8; /* rows above and below what is in sight */

/* columns: [{ title, className, cell(job) }]; open(job) on Enter and click. */
export function makeTable(label, columns, open) {
  const rows = el('div', { class: 'rows', role: 'rowgroup' });
  const head = el('div', { class: 'tr th', role: 'row' }, columns.map(c => el('span', { role: 'columnheader', class: c.className }, c.title)));
  const box = el('div', { class: 'vt', tabindex: '0', role: 'grid', 'aria-label': label }, head, rows);
  let items = [], selected = 0, pending = false;

  function line(item, i) {
    return el('div', { class: `tr${i === selected ? ' sel' : ''}${item.isGone ? ' gone' : ''}`, role: 'row', 'aria-rowindex': i + 2, 'aria-selected': String(i === selected), style: { top: `${i * ROW_PX}px` }, 'data-id': item.id },
      columns.map(c => el('span', { role: 'gridcell', class: c.className }, c.cell(item))));
  }
  let from = 0, to = 0; /* the rows in the document */
  const reach = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW_PX) - MORE);
    return [first, Math.min(items.length, first + Math.ceil(box.clientHeight / ROW_PX) + 2 * MORE)];
  };
  const lines = (first, last) => items.slice(first, last).map((item, i) => line(item, first + i));
  function paint() {
    [from, to] = reach();
    rows.replaceChildren(...lines(from, to));
  }
  function move() { /* (3) */
    pending = false;
    const [first, last] = reach();
    if (first >= to || last <= from) { paint(); return; }
    for (; from < first; from++) rows.firstChild.remove();
    for (; to > last; to--) rows.lastChild.remove();
    rows.prepend(...lines(first, from));
    rows.append(...lines(to, last));
    from = first;
    to = Math.max(to, last);
  }
  const paintSoon = () => { if (!pending) { pending = true; requestAnimationFrame(move); } };
  function select(i) {
    selected = Math.max(0, Math.min(items.length - 1, i));
    const y = selected * ROW_PX;
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y + 2 * ROW_PX > box.scrollTop + box.clientHeight) box.scrollTop = y + 2 * ROW_PX - box.clientHeight;
    paint();
  }
  box.addEventListener('scroll', paintSoon);
  new ResizeObserver(paintSoon).observe(box);
  rows.addEventListener('click', event => {
    const row = event.target.closest('.tr');
    if (!row || event.target.closest('a') || !getSelection().isCollapsed) return;
    const item = items.find(one => String(one.id) === row.dataset.id);
    if (item) open(item);
  });
  return {
    box,
    setRows(list) {
      items = list;
      selected = Math.min(selected, Math.max(0, list.length - 1));
      rows.style.height = `${list.length * ROW_PX}px`;
      paint();
    },
    rows: () => items,
    refresh: paint,
    isTouched: () => box.matches(':hover') || box.contains(document.activeElement) || box.scrollTop > 0,
    keys: {
      j: () => select(selected + 1), k: () => select(selected - 1),
      ArrowDown: () => select(selected + 1), ArrowUp: () => select(selected - 1),
      Enter: () => items[selected] && open(items[selected]),
    },
  };
}
