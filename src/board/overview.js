/* overview.js - is the cluster well, is my job up soon, what needs me?
 *
 * A sentence first, numbers under it. A job is a block on the map, in the
 * colour of its user; a GPU with two jobs has two halves.
 */
import { el, panel, show, swap, choice } from './dom.js';
import { store, now_s, capacity, waiting, running, over, heldSteps, askedSteps, jobOf } from './store.js';
import { count, plural, duration, percent, parseGpus, safeName, asks, stateOf } from './words.js';
import { timeChart } from './charts.js';
import { jobLink, tintOf, colourBy, setColourBy, colourKey, eventRow, IS_NOISE } from './shared.js';

const DAY_S = 86400, TIGHT_FROM = 60, TIGHT_PER_ROW = 10;

const STATES = [['held', 'held'], ['free', 'free'], ['outside', 'used from outside'], ['drained', 'drained'], ['down', 'down']];

const canStart = job => job.reason !== 'held' && job.reason !== 'never';

/* "130 of 160 GPUs are at work. 15 jobs wait for 140 more; the next starts in
 * about 5 min." */
function sentence(c, queue) {
  const can = queue.filter(canStart), never = queue.filter(job => job.reason === 'never').length;
  const asked = can.reduce((n, job) => n + job.gpus_min, 0);
  const next = can.map(job => store.forecast.get(job.id)?.start_at_s).filter(t => t).sort((a, b) => a - b)[0];
  return [`${count(c.held)} of ${plural(c.all, 'GPU')} ${c.held === 1 ? 'is' : 'are'} at work. `,
    can.length ? el('em', {}, `${plural(can.length, 'job')} ${can.length === 1 ? 'waits' : 'wait'} for ${plural(asked, 'GPU')}`) : 'No job waits',
    next ? `; the next starts in about ${duration(next - now_s())}.` : '.', never ? ` ${plural(never, 'job')} cannot run on this cluster.` : ''];
}

function stats() {
  const since_s = now_s() - DAY_S, ended = over().filter(job => job.ended_s > since_s);
  const waits = [...store.jobs.values()].filter(job => job.started_s > since_s).map(job => job.started_s - job.submitted_s).sort((a, b) => a - b);
  return [[count(running().length), 'jobs run'],
    [waits.length ? duration(waits[Math.floor(waits.length * 0.9)]) : '–', '9 of 10 waited less'],
    [count(ended.filter(job => job.state === 'succeeded').length), 'done in 24 h'],
    [count(ended.filter(job => job.state === 'failed').length), 'failed in 24 h']]
    .map(([value, label]) => el('div', { class: 'stat' }, el('b', {}, value), el('span', {}, label)));
}

/* --- the map ------------------------------------------------------------------ */

/* By node: for each GPU the jobs on it. */
function placeJobs() {
  const places = new Map();
  for (const job of running())
    for (const part of parseGpus(job.gpus)) {
      if (!places.has(part.node)) places.set(part.node, []);
      places.get(part.node).push({ job, gpus: part.gpus, isShared: part.isShared });
    }
  return places;
}
/* Neighbouring GPUs of a job are one block. */
function blocks(gpus) {
  const out = [];
  for (const g of gpus) {
    const last = out[out.length - 1];
    if (last && last.from + last.n === g) last.n++;
    else out.push({ from: g, n: 1 });
  }
  return out;
}

function nodeCells(node, places) {
  const used = new Array(node.gpus).fill(0), cells = [];
  for (const { job, gpus, isShared } of places || [])
    for (const block of blocks(gpus)) {
      const half = isShared ? (used[block.from] ? ' low' : ' high') : '';
      for (let g = block.from; g < block.from + block.n; g++) used[g]++;
      const isIdle = job.utilisation !== undefined && job.utilisation < 0.05;
      cells.push(el('a', { class: `blk ${tintOf(job)}${half}${isIdle ? ' idle' : ''}`, href: `#/jobs/${job.id}`, 'data-job': job.id, style: { gridColumn: `${block.from + 1} / span ${block.n}` }, 'aria-label': `job ${job.id}, ${safeName(job.name)}, ${plural(block.n, 'GPU')}` },
        block.n > 1 || node.gpus <= 4 ? el('span', {}, safeName(job.name)) : null));
    }
  const outside = new Set(node.up ? node.outside_gpus : []);
  for (let g = node.gpus - 1; g >= 0; g--)
    if (!used[g]) {
      const kind = !node.up ? 'down' : outside.has(g) ? 'outside' : node.drained ? 'drained' : 'free';
      cells.push(el('i', { class: `cell is-${kind}`, style: { gridColumn: g + 1 } }));
    }
  return cells;
}
function nodeTile(node, places, isTight) {
  const word = !node.up ? 'down' : node.drained ? 'drained' : node.free ? `${node.free} free` : '';
  const name = safeName(node.name);
  return el('div', { class: 'node', title: isTight ? `${name}${word ? `, ${word}` : ''}` : node.why || null },
    isTight ? null : el('div', { class: 'nodename' }, el('span', { class: 'mono' }, name), el('span', { class: !node.up ? 't-bad' : node.drained ? 't-wait' : '' }, word)),
    el('div', { class: 'cells', style: { gridTemplateColumns: `repeat(${node.gpus}, minmax(0, 1fr))` } }, nodeCells(node, places)));
}
function mapRows(nodes, places, isTight) {
  if (!isTight) {
    const most = Math.max(...nodes.map(n => n.gpus));
    const perRow = Math.max(1, Math.min(nodes.length, Math.round(32 / most), 8));
    return el('div', { class: 'nodes', style: { gridTemplateColumns: `repeat(${perRow}, minmax(0, 1fr))` } }, nodes.map(n => nodeTile(n, places.get(n.name), false)));
  }
  const rows = [];
  for (let i = 0; i < nodes.length; i += TIGHT_PER_ROW) {
    const some = nodes.slice(i, i + TIGHT_PER_ROW);
    rows.push(el('div', { class: 'tightrow' }, el('span', { class: 'mono dim' }, safeName(some[0].name)), some.map(n => nodeTile(n, places.get(n.name), true))));
  }
  return rows;
}
function map() {
  const isTight = store.nodes.length > TIGHT_FROM, places = placeJobs(), types = [...new Set(store.nodes.map(n => n.type))];
  return [types.map(type => {
    const nodes = store.nodes.filter(n => n.type === type), free = nodes.reduce((n, x) => n + (x.up && !x.drained ? x.free : 0), 0);
    return [el('div', { class: 'type' }, el('b', {}, type), ` ${nodes[0].mem_gib ? `${nodes[0].mem_gib} GiB · ` : ''}${plural(nodes.length, 'node')} · ${plural(nodes.reduce((n, x) => n + x.gpus, 0), 'GPU')} · ${free ? `${free} free` : 'none free'}`),
      mapRows(nodes, places, isTight)];
  }), colourKey(running())];
}
/* A text that changes when the map does. */
const mapKey = () => colourBy() + store.nodes.map(n => `${n.name}${n.free}${n.outside_gpus || ''}${n.up}${n.drained}`).join() +
  running().map(j => `${j.id}${j.gpus}${(j.utilisation ?? 1) < 0.05}`).join();

/* --- lists -------------------------------------------------------------------- */

function needsLook() {
  const rows = [];
  const add = (tone, mark, title, text, right) => rows.push(el('li', {}, el('span', { class: `lead t-${tone}`, 'aria-hidden': 'true' }, mark), el('div', { class: 't' }, title, el('p', {}, text)), el('div', { class: 'r dim' }, right)));
  for (const node of store.nodes) if (!node.up) add('lost', '!', el('b', {}, `${safeName(node.name)} is down`), node.why || 'the engine gives no reason', plural(node.gpus, 'GPU'));
  const never = waiting().filter(job => job.reason === 'never');
  for (const job of never.slice(0, 2)) add('bad', '✕', jobLink(job), safeName(job.why), safeName(job.user));
  if (never.length > 2) add('bad', '✕', el('a', { class: 'nm', href: '#/jobs?state=waiting&q=reason%3Anever' }, `${count(never.length - 2)} more jobs`), 'cannot run on this cluster', '');
  for (const job of running()) if (job.utilisation !== undefined && job.utilisation < 0.05 && (job.ran_s || 0) > 300) add('wait', '◔', jobLink(job), `holds ${plural(job.ngpus, 'GPU')} and uses ${percent(job.utilisation)} of them`, safeName(job.user));
  for (const node of store.nodes) if (node.drained) add('off', '‖', el('b', {}, `${safeName(node.name)} is drained`), node.free + node.outside < node.gpus ? 'jobs still hold GPUs of it' : 'no job holds a GPU of it', plural(node.gpus, 'GPU'));
  for (const job of over().filter(j => j.state === 'failed' || j.state === 'lost').slice(0, 3)) add('bad', stateOf(job)[2], jobLink(job), job.why, `${duration(now_s() - job.ended_s)} ago`);
  return rows.length ? el('ul', { class: 'list' }, rows.slice(0, 6)) : el('div', { class: 'empty' }, 'Nothing. All nodes are up and no job failed.');
}
function nextUp(queue) {
  queue = queue.filter(canStart);
  if (!queue.length) return el('div', { class: 'empty' }, store.jobs.size ? 'No job waits.' : ['No jobs yet. Submit one: ', el('code', {}, 'firn submit --gpus 1 -- python train.py')]);
  return el('ul', { class: 'list' }, queue.slice(0, 5).map(job => {
    const at_s = store.forecast.get(job.id)?.start_at_s;
    return el('li', {}, el('span', { class: 'pos' }, store.forecast.get(job.id)?.position ?? '–'),
      el('div', { class: 't' }, jobLink(job), el('span', { class: 'dim' }, ` ${safeName(job.user)}`), el('p', {}, job.why)),
      el('div', { class: 'r' }, at_s ? ['in ', el('b', {}, duration(at_s - now_s()))] : el('span', { class: 'dim' }, 'not known'), el('small', {}, plural(job.gpus_min === job.gpus_max ? job.gpus_min : 2, 'GPU').replace(/^\S+/, asks(job)))));
  }));
}

export function overview(main) {
  const head = el('h1'), policy = el('p'), numbers = el('div', { class: 'stats' });
  const bar = el('div', { class: 'cap', role: 'img' }), key = el('div', { class: 'key' });
  const mapBox = el('div', { class: 'in map' }), past = el('div', { class: 'in' });
  const look = el('div'), next = el('div'), just = el('div', { class: 'events' });
  const waits = el('a', { href: '#/jobs?state=waiting' });
  const by = el('span');
  main.replaceChildren(
    el('div', { class: 'head' }, el('div', {}, head, policy), numbers), bar, key,
    el('div', { class: 'cols first' },
      el('div', { class: 'stack' },
        panel('Cluster', 'each block is a job on its GPUs', mapBox, el('span', { class: 'dim' }, 'colour by '), by),
        panel('Last 24 hours', '', past, el('span', { class: 'key' }, el('span', {}, el('i', { class: 'is-held' }), 'GPUs held'), el('span', {}, el('i', { class: 'b-wait' }), 'GPUs asked for by waiting jobs')))),
      el('div', { class: 'stack' },
        panel('Needs a look', '', look), panel('Next in the queue', '', next, waits),
        panel('Just happened', '', just, el('a', { href: '#/events' }, 'all')))));
  const drawBy = () => by.replaceChildren(choice([['user', 'user'], ['queue', 'queue'], ['busy', 'busy']], colourBy(), value => { setColourBy(value); drawBy(); update(); }));
  drawBy();

  let drawn_s = 0, drawnWidth_px = 0;
  function drawPast() {
    const width_px = past.clientWidth - 28;
    if (width_px < 100 || (now_s() - drawn_s < 5 && width_px === drawnWidth_px)) return;
    drawn_s = now_s(); drawnWidth_px = width_px;
    const first_s = Math.min(now_s() - 600, ...store.spans.map(s => s.from_s), ...[...store.jobs.values()].map(j => j.submitted_s));
    const from_s = Math.max(now_s() - DAY_S, first_s, 1), close = points => [...points, [now_s(), points[points.length - 1][1]]];
    past.replaceChildren(timeChart({ width_px, height_px: 180, x: [from_s, now_s()], label: 'GPUs held and asked for in the last 24 hours',
      series: [{ points: close(heldSteps(from_s)), tone: 'run', isStep: true, isArea: true }, { points: close(askedSteps(from_s)), tone: 'wait', isStep: true, dash: '5 3' }],
      cap: capacity().all, capText: plural(capacity().all, 'GPU'), unit: ' GPUs' }));
  }
  function update() {
    const c = capacity(), queue = waiting();
    swap(head, sentence(c, queue));
    policy.textContent = `Policy ${store.policy.name}: ${store.policy.summary}`;
    swap(numbers, stats());
    const shown = STATES.filter(([k]) => c[k] || k === 'held' || k === 'free');
    bar.setAttribute('aria-label', shown.map(([k, text]) => `${c[k]} ${text}`).join(', '));
    show(bar, JSON.stringify(c), () => STATES.filter(([k]) => c[k]).map(([k]) => el('i', { class: `is-${k}`, style: { width: `${c[k] / c.all * 100}%` } })));
    show(key, JSON.stringify(c), () => shown.map(([k, text]) => el('span', {}, el('i', { class: `is-${k}` }), el('b', {}, count(c[k])), text)));
    mapBox.classList.toggle('tight', store.nodes.length > TIGHT_FROM);
    show(mapBox, mapKey(), map);
    swap(look, needsLook());
    swap(next, nextUp(queue));
    waits.textContent = `all ${count(queue.length)}`;
    swap(just, store.events.filter(e => !IS_NOISE.has(e.kind)).slice(-8).reverse().map(e => eventRow(e, jobOf(e.job))));
    drawPast();
  }
  return { title: 'Overview', update, resize: () => { drawnWidth_px = 0; drawPast(); } };
}
