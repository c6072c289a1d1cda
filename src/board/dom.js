/* dom.js - elements from data.
 *
 * The one place where elements are made. A child that is no node becomes a text
 * node: names, reasons and log lines of other people are never markup, and no
 * file of the board uses innerHTML. Styles are set by property, which the
 * Content-Security-Policy allows.
 */
const SVG = 'http://www.w3.org/2000/svg';

function fill(element, props, kids) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'style') Object.assign(element.style, value);
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'value') element.value = value;
    else element.setAttribute(key, value === true ? '' : value);
  }
  for (const kid of kids.flat(Infinity)) {
    if (kid === null || kid === undefined || kid === false) continue;
    element.append(kid instanceof Node ? kid : String(kid));
  }
  return element;
}

export const el = (tag, props, ...kids) => fill(document.createElement(tag), props, kids);
export const svg = (tag, props, ...kids) => fill(document.createElementNS(SVG, tag), props, kids);
export const $ = (selector, root = document) => root.querySelector(selector);

/* Replaces the children of a box, unless what it shows is the same as before or
 * the reader is selecting text in it. `key` is a text that tells contents apart. */
export function show(box, key, make) {
  if (box.dataset.key === key) return;
  const selection = getSelection();
  if (selection && !selection.isCollapsed && box.contains(selection.anchorNode)) return;
  box.dataset.key = key;
  box.replaceChildren(...[make()].flat(Infinity).filter(Boolean));
}

/* Replaces the children of a box by these, unless they are the same or the
 * reader is selecting text in it. */
export function swap(box, ...kids) {
  const nodes = kids.flat(Infinity).filter(kid => kid !== null && kid !== undefined && kid !== false)
    .map(kid => (kid instanceof Node ? kid : document.createTextNode(String(kid))));
  const isSame = nodes.length === box.childNodes.length && nodes.every((node, i) => node.isEqualNode(box.childNodes[i]));
  const selection = getSelection();
  if (isSame || (selection && !selection.isCollapsed && box.contains(selection.anchorNode))) return;
  box.replaceChildren(...nodes);
}

/* A panel with a heading; `body` may be a node or a list of nodes. */
export const panel = (title, note, body, ...tools) =>
  el('section', { class: 'panel' },
    el('header', {}, el('h2', {}, title), note ? el('span', { class: 'dim' }, note) : null,
      el('span', { class: 'grow' }), tools),
    body);

/* A row of buttons of which one is pressed. */
export const choice = (options, chosen, pick) =>
  el('span', { class: 'seg', role: 'group' }, options.map(([value, label]) =>
    el('button', { type: 'button', 'aria-pressed': String(value === chosen), onclick: () => pick(value) }, label)));

const tip = () => $('#tip');

export function showTip(x_px, y_px, lines) {
  const box = tip();
  box.replaceChildren(...lines.filter(Boolean).map((line, i) => el(i ? 'p' : 'b', {}, line)));
  box.hidden = false;
  const size = box.getBoundingClientRect();
  box.style.left = `${Math.max(4, Math.min(x_px + 14, innerWidth - size.width - 8))}px`;
  box.style.top = `${Math.max(4, Math.min(y_px + 16, innerHeight - size.height - 8))}px`;
}
export const hideTip = () => { tip().hidden = true; };

/* Asks once; the promise is true when the reader agrees. */
export function confirmAction(question, detail, yes) {
  const dialog = $('#dialog');
  return new Promise(resolve => {
    const end = answer => { dialog.close(); resolve(answer); };
    dialog.replaceChildren(el('h2', {}, question), el('p', {}, detail),
      el('div', { class: 'bar' },
        el('button', { class: 'btn', type: 'button', onclick: () => end(false) }, 'Keep it as it is'),
        el('button', { class: 'btn bad', type: 'button', onclick: () => end(true) }, yes)));
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
  });
}
