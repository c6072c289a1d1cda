/* app.js - starts the board: sign-in, addresses, keys, the link's state.
 *
 * An address is #/VIEW or #/jobs/ID with a query behind it; each view is a
 * function that fills <main> and returns { title, update, resize, keys, close }.
 * #k=CODE is the one-time link of `firn board`: the code is exchanged, and wiped
 * from the address before anything else happens.
 */
import { el, $, showTip, hideTip, swap } from './dom.js';
import { isSignedIn, signInByToken, signInByCode, signOut, forgetToken, askOtherTabs } from './net.js';
import { store, start, onChange, now_s, jobOf } from './store.js';
import { rankUsers, jobTip } from './shared.js';
import { duration, safeName } from './words.js';
import { overview } from './overview.js';
import { jobs } from './jobs.js';
import { job } from './job.js';
import { timeline } from './timeline.js';
import { users } from './users.js';
import { plan } from './plan.js';
import { events } from './events.js';

const VIEWS = [['', 'Overview', overview, 'o'], ['jobs', 'Jobs', jobs, 'j'], ['timeline', 'Timeline', timeline, 't'], ['users', 'Users', users, 'u'], ['plan', 'Plan', plan, 'p'], ['events', 'Events', events, 'e']];
const main = $('#main'), root = document.documentElement;
let view = null;

/* --- theme ---------------------------------------------------------------------- */

root.dataset.theme = localStorage.getItem('firn-theme') || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
function turnTheme() {
  root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
  localStorage.setItem('firn-theme', root.dataset.theme);
  view?.resize?.();
}
$('#theme').addEventListener('click', turnTheme);

/* --- sign-in --------------------------------------------------------------------- */

function signInView(message) {
  const token = el('input', { type: 'password', name: 'token', autocomplete: 'off', 'aria-label': 'Token', required: true, maxlength: '4096' });
  const note = el('p', { class: 't-bad', role: 'alert' }, message);
  view = null;
  document.title = 'firn: sign in';
  $('#views').replaceChildren();
  main.replaceChildren(el('section', { class: 'panel signin' }, el('header', {}, el('h1', {}, 'Sign in')), el('div', { class: 'in' },
    el('p', {}, 'On the host of firnd, run ', el('code', {}, 'firn board'), ' and open the link that it prints.'),
    el('p', {}, 'Or give a token that firnd knows. It is kept in this tab only.'),
    el('form', { class: 'bar', onsubmit: async event => {
      event.preventDefault();
      try { await signInByToken(token.value); await begin(); } catch (error) { note.textContent = error.status === 401 ? 'firnd does not know this token.' : safeName(error.message); }
    } }, token, el('button', { class: 'btn main', type: 'submit' }, 'Sign in')), note)));
  token.focus();
}

async function begin() {
  main.replaceChildren(el('div', { class: 'empty' }, 'Loading …'));
  await start();
  rankUsers();
  $('#views').replaceChildren(...VIEWS.map(([name, label]) => el('a', { href: `#/${name}`, 'data-view': name }, label)),
    el('button', { class: 'linkbtn', type: 'button', onclick: async () => { await signOut(); location.replace('/'); location.reload(); } }, 'Sign out'));
  go();
}

/* --- addresses -------------------------------------------------------------------- */

function go() {
  if (!isSignedIn()) return;
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, id] = path.split('/').map(decodeURIComponent);
  const found = VIEWS.find(v => v[0] === name) || VIEWS[0];
  view?.close?.();
  hideTip();
  view = (name === 'jobs' && id ? job : found[2])(main, new URLSearchParams(query), id);
  document.title = `${view.title} – firn`;
  for (const link of $('#views').querySelectorAll('a')) {
    if (link.dataset.view === found[0]) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  scrollTo(0, 0);
  view.update();
}

/* --- the link to firnd -------------------------------------------------------------- */

function showLink() {
  const link = $('#link'), isLost = store.link === 'lost';
  link.className = `link ${store.link}`;
  $('b', link).textContent = isLost ? 'not connected' : store.link;
  const refused = store.linkError?.status === 401;
  const text = refused ? 'The session has ended. Run firn board for a new link.'
    : isLost ? `Not connected to firnd since ${duration(now_s() - store.lostSince_s)}. What is shown is of that time; trying again.`
      : store.trouble ? `firnd: ${safeName(store.trouble)}` : '';
  const banner = $('#banner');
  banner.hidden = text === '';
  if (banner.textContent !== text) banner.textContent = text;
  document.body.classList.toggle('lost', isLost);
}
function update() {
  showLink();
  try { view?.update(); } catch (error) { console.error(error); }
}

/* --- keys ---------------------------------------------------------------------------- */

let goKey = false;
function showKeys() {
  const dialog = $('#dialog'), keys = [['/', 'find'], ...VIEWS.map(v => [`g ${v[3]}`, v[1]]), ['j k Enter', 'move in a list, open'], ['w a s d', 'timeline: zoom and move'], ['t', 'light or dark'], ['?', 'these keys']];
  dialog.replaceChildren(el('h2', {}, 'Keys'), el('dl', { class: 'facts' }, keys.map(([k, text]) => [el('dt', {}, k.split(' ').map(one => el('kbd', {}, one))), el('dd', {}, text)])));
  dialog.showModal();
}
addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !view || $('#dialog').open) return;
  if (event.target.matches('input, textarea, select')) { if (event.key === 'Escape') event.target.blur(); return; }
  const named = goKey && VIEWS.find(v => v[3] === event.key);
  goKey = !goKey && event.key === 'g';
  const own = { '/': () => $('#find input').focus(), t: turnTheme, '?': showKeys, ...view.keys };
  const act = named ? () => { location.hash = `#/${named[0]}`; } : own[event.key];
  if (!act || (event.key === 'Enter' && event.target.matches('a, button'))) return;
  event.preventDefault();
  act();
});
$('#find').addEventListener('submit', event => {
  event.preventDefault();
  const input = $('input', event.target), word = input.value.trim();
  if (!word) return;
  const all = [...store.jobs.values()].sort((a, b) => b.id - a.id), exact = all.find(j => String(j.id) === word || j.name === word);
  const user = all.find(j => j.user === word), state = all.some(j => j.state === 'pending' && j.name.includes(word)) ? 'waiting' : all.some(j => j.ngpus && j.name.includes(word)) ? 'running' : 'finished';
  location.hash = exact ? `#/jobs/${exact.id}` : user ? `#/jobs?${new URLSearchParams({ state: user.state === 'pending' ? 'waiting' : user.ngpus ? 'running' : 'finished', q: `user:${word}` })}` : `#/jobs?${new URLSearchParams({ state, q: word })}`;
  input.blur();
});

/* A pointer over a block of the map names its job, and shows all its blocks. */
let hot = '';
addEventListener('mousemove', event => {
  const block = event.target.closest?.('[data-job]'), id = block ? block.dataset.job : '';
  if (block) showTip(event.clientX, event.clientY, jobTip(jobOf(Number(id))));
  else if (!event.target.closest?.('canvas')) hideTip();
  if (id === hot) return;
  hot = id;
  const map = $('.map');
  if (!map) return;
  map.classList.toggle('hot', id !== '');
  for (const one of map.querySelectorAll('.blk')) one.classList.toggle('on', one.dataset.job === id);
});

/* --- start ---------------------------------------------------------------------------- */

addEventListener('hashchange', () => { if (/^#k=/.test(location.hash)) location.reload(); else go(); });
addEventListener('resize', () => view?.resize?.());
onChange(update);
setInterval(() => { if (!document.hidden && view) update(); }, 1000);
addEventListener('unhandledrejection', event => { if (event.reason?.status === 401) { forgetToken(); signInView('The session has ended.'); } });

(async () => {
  const code = (location.hash.match(/^#k=([0-9a-f]+)$/) || [])[1];
  let message = '';
  if (code) {
    history.replaceState(null, '', '#/');
    try { await signInByCode(code); } catch (error) { message = safeName(error.message); }
  }
  if (!isSignedIn() && !message) await askOtherTabs();
  if (!isSignedIn()) { signInView(message); return; }
  try { await begin(); } catch (error) {
    if (error.status === 401 || error.status === 403) { forgetToken(); signInView(error.status === 403 ? 'This token may not read the cluster.' : 'The session has ended. Sign in again.'); return; }
    swap(main, el('section', { class: 'panel' }, el('div', { class: 'empty' }, `firnd does not answer: ${safeName(error.message)} `, el('button', { class: 'btn', type: 'button', onclick: () => location.reload() }, 'Try again'))));
  }
})();
