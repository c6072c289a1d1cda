/* timeline.js - who had which GPUs when, and what is expected to come.
 *
 * One canvas; a lane is a GPU, lanes of a node stand together. Left of now are
 * the spans of the history; right of now is the forecast, hatched: running jobs
 * until their expected ends, waiting ones from their expected starts. The window
 * is in the address. The list of jobs has the same facts for those who cannot
 * see a canvas.
 */
import { el, choice, showTip, hideTip } from './dom.js';
import { store, now_s, jobOf, heldSteps, capacity } from './store.js';
import { parseGpus, day, duration, safeName, moment } from './words.js';
import { timeTicks, tickText } from './charts.js';
import { tintNumber, colourKey, colourBy, setColourBy, jobTip, jobHref } from './shared.js';

const GUTTER_PX = 92, TOP_PX = 74, TYPE_PX = 18, DAY_S = 86400;
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* Colours of the theme, once for each drawing. */
function palette() {
  const p = { tint: [], text: [] };
  for (let i = 0; i <= 8; i++) { p.tint[i] = css(`--u${i}`); p.text[i] = i ? css('--onblock') : css('--onother'); }
  for (const name of ['panel', 'sunk', 'line', 'line2', 'ink', 'ink2', 'ink3', 'run', 'runwash', 'bad']) p[name] = css(`--${name}`);
  return p;
}

/* Where each node's lanes are. */
function layout(height_px) {
  const ngpus = store.nodes.reduce((n, x) => n + x.gpus, 0) || 1, types = new Set(store.nodes.map(n => n.type)).size;
  const gap_px = store.nodes.length > 60 ? 1 : 4;
  const lane_px = Math.max(store.nodes.length > 60 ? 2 : 4, Math.min(16, (height_px - TOP_PX - types * TYPE_PX - store.nodes.length * gap_px - 6) / ngpus));
  const rows = [], at = new Map();
  let y = TOP_PX, type = null;
  for (const node of [...store.nodes].sort((a, b) => (a.type < b.type ? -1 : a.type > b.type ? 1 : 0))) {
    if (node.type !== type) { type = node.type; rows.push({ type, y }); y += TYPE_PX; }
    rows.push({ node, y, height_px: node.gpus * lane_px });
    at.set(node.name, y);
    y += node.gpus * lane_px + gap_px;
  }
  return { rows, at, lane_px, end_px: y };
}

/* The forecast as spans. */
function comingSpans() {
  const out = [];
  for (const seen of store.forecast.values()) {
    const job = store.jobs.get(seen.id);
    if (!job || job.state === 'succeeded') continue;
    const parts = job.ngpus ? parseGpus(job.gpus) : parseGpus(seen.gpus), from_s = job.ngpus ? now_s() : seen.start_at_s;
    if (parts.length && from_s && seen.finish_at_s) out.push({ job: seen.id, from_s: Math.max(from_s, now_s()), to_s: seen.finish_at_s, parts, isComing: true });
  }
  return out;
}

export function timeline(main, query) {
  const canvas = el('canvas', { tabindex: '0', role: 'img', 'aria-label': 'GPUs over time; the lists of jobs have the same facts as tables' });
  const foot = el('div', { class: 'foot' }), tools = el('span', { class: 'bar' });
  main.replaceChildren(el('div', { class: 'bar' }, el('h1', {}, 'Timeline'), el('span', { class: 'dim wide' }, 'a lane is a GPU; right of now is the forecast'), el('span', { class: 'grow' }), tools), el('section', { class: 'panel tl' }, canvas, foot));
  const first_s = Math.min(now_s() - 900, ...store.spans.map(s => s.from_s));
  const selected = Number(query.get('job')) || 0;
  let to_s = Number(query.get('to')) || 0, from_s = Number(query.get('from')) || 0, hits = [], drag = null, offset_px = 0, isMoved = from_s > 0;
  if (!from_s) {
    const chosen = selected && (jobOf(selected)), spans = store.spans.filter(s => s.job === selected);
    const past_s = Math.min(8 * 3600, now_s() - Math.max(first_s, now_s() - DAY_S));
    from_s = now_s() - past_s; to_s = now_s() + past_s * 0.28;
    if (chosen && spans.length) {
      const end_s = Math.max(...spans.map(s => s.to_s ?? now_s())), margin_s = Math.max(60, (end_s - spans[0].from_s) * 0.3);
      from_s = spans[0].from_s - margin_s; to_s = end_s + margin_s; isMoved = true;
    }
  }
  const width_px = () => canvas.clientWidth, x = t => GUTTER_PX + (t - from_s) / (to_s - from_s) * (width_px() - GUTTER_PX);
  const timeAt = px => from_s + (px - GUTTER_PX) / (width_px() - GUTTER_PX) * (to_s - from_s);
  function keepAddress() {
    history.replaceState(null, '', `#/timeline?${new URLSearchParams({ from: Math.round(from_s), to: Math.round(to_s), ...(selected ? { job: selected } : {}) })}`);
  }
  function move(a_s, b_s) {
    const least_s = 10, most_s = 8 * DAY_S;
    if (b_s - a_s < least_s || b_s - a_s > most_s) return;
    from_s = a_s; to_s = b_s; isMoved = true;
    keepAddress(); draw();
  }
  const ticks = () => timeTicks(from_s, to_s, Math.max(2, Math.floor(width_px() / 100)));
  const zoom = (by, at_s = (from_s + to_s) / 2) => move(at_s - (at_s - from_s) * by, at_s + (to_s - at_s) * by);
  const shift = share => move(from_s + (to_s - from_s) * share, to_s + (to_s - from_s) * share);

  function draw() {
    const height_px = Math.max(360, innerHeight - canvas.getBoundingClientRect().top - scrollY - 76), ratio = devicePixelRatio || 1, width = width_px();
    if (width < 50) return;
    const place = layout(height_px), full_px = place.end_px + 6;
    canvas.style.height = `${height_px}px`;
    canvas.width = width * ratio; canvas.height = height_px * ratio;
    offset_px = Math.max(0, Math.min(offset_px, full_px - height_px));
    const c = canvas.getContext('2d'), p = palette();
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = p.panel; c.fillRect(0, 0, width, height_px);
    c.font = '11px system-ui, sans-serif'; c.textBaseline = 'middle';
    c.save();
    c.beginPath(); c.rect(0, TOP_PX, width, height_px - TOP_PX); c.clip();
    c.translate(0, -offset_px);
    drawLanes(c, p, place, width);
    for (const t of ticks()) { c.fillStyle = p.line; c.fillRect(x(t), TOP_PX, 1, place.end_px); }
    hits = [];
    for (const span of [...store.spans, ...comingSpans()]) drawSpan(c, p, place, span, width);
    c.restore();
    drawHead(c, p, width, height_px);
    foot.replaceChildren(colourKey([...new Set(hits.map(h => h.job))].map(jobOf).filter(Boolean)), el('span', { class: 'grow' }), el('span', { class: 'dim' }, store.forecastStopped ? safeName(store.forecastStopped) : 'hatched: the forecast, without new jobs'));
  }
  function drawLanes(c, p, place, width) {
    for (const row of place.rows) {
      if (row.type !== undefined) { c.fillStyle = p.ink; c.font = '600 11px system-ui, sans-serif'; c.textAlign = 'left'; c.fillText(row.type, 10, row.y + TYPE_PX / 2 + 1); c.font = '11px system-ui, sans-serif'; continue; }
      c.fillStyle = p.sunk; c.fillRect(GUTTER_PX, row.y, width - GUTTER_PX, row.height_px);
      if (row.height_px >= 9) { c.fillStyle = row.node.up ? p.ink3 : p.bad; c.textAlign = 'right'; c.fillText(`${row.node.up ? '' : '✕ '}${safeName(row.node.name)}`.slice(0, 16), GUTTER_PX - 8, row.y + row.height_px / 2); }
    }
  }
  function drawSpan(c, p, place, span, width) {
    const a = Math.max(GUTTER_PX, x(span.from_s)), b = Math.min(width, x(span.to_s ?? now_s()));
    if (b <= GUTTER_PX || a >= width || b <= a) return;
    const job = jobOf(span.job), tint = job ? tintNumber(job) : 0;
    for (const part of span.parts) {
      const base = place.at.get(part.node);
      if (base === undefined) continue;
      for (let i = 0; i < part.gpus.length;) {
        let n = 1;
        while (part.gpus[i + n] === part.gpus[i] + n) n++;
        const half = part.isShared ? place.lane_px / 2 : 0, isLow = part.isShared && hits.some(h => h.isShared && h.node === part.node && h.gpu === part.gpus[i] && h.job !== span.job && h.a < b && h.b > a && !h.isLow);
        const y = base + part.gpus[i] * place.lane_px + (isLow ? half : 0), height = n * place.lane_px - (part.isShared ? half : 0) - (place.lane_px > 5 ? 1 : 0);
        c.globalAlpha = selected && selected !== span.job ? 0.3 : span.isComing ? 0.5 : 1;
        c.fillStyle = p.tint[tint]; c.fillRect(a, y, Math.max(1, b - a - (b - a > 3 ? 1 : 0)), height);
        if (span.isComing) hatch(c, p, a, y, b - a, height);
        c.globalAlpha = 1;
        if (b - a > 44 && height >= 11 && job) {
          c.save(); c.beginPath(); c.rect(a, y, b - a - 3, height); c.clip();
          c.fillStyle = span.isComing ? p.ink2 : p.text[tint]; c.textAlign = 'left'; c.fillText(safeName(job.name).slice(0, 80), a + 5, y + height / 2); c.restore();
        }
        hits.push({ job: span.job, span, a, b, y: y - offset_px, height, node: part.node, gpu: part.gpus[i], isShared: part.isShared, isLow });
        i += n;
      }
    }
  }
  function hatch(c, p, a, y, width, height) {
    c.save(); c.beginPath(); c.rect(a, y, width, height); c.clip();
    c.strokeStyle = p.panel; c.lineWidth = 1.5; c.beginPath();
    for (let i = -height; i < width; i += 7) { c.moveTo(a + i, y + height); c.lineTo(a + i + height, y); }
    c.stroke(); c.restore();
  }
  /* GPUs held over time, the time axis, and now. */
  function drawHead(c, p, width, height_px) {
    const all = Math.max(1, capacity().all), now_px = x(now_s()), base = 46;
    c.save(); c.beginPath(); c.rect(GUTTER_PX, 0, width - GUTTER_PX, height_px); c.clip();
    const points = heldSteps(from_s);
    c.fillStyle = p.runwash; c.strokeStyle = p.run; c.beginPath(); c.moveTo(x(from_s), base);
    let value = 0;
    for (const [t, v] of points) { c.lineTo(x(t), base - value / all * 38); c.lineTo(x(t), base - v / all * 38); value = v; }
    c.lineTo(now_px, base - value / all * 38); c.lineTo(now_px, base); c.fill(); c.stroke();
    c.fillStyle = p.ink3; c.textAlign = 'center';
    for (const t of ticks()) c.fillText(tickText(t, from_s, to_s), x(t), 62);
    if (now_px > GUTTER_PX && now_px < width) {
      c.fillStyle = p.ink2; c.fillRect(now_px - 0.5, 50, 1.5, height_px);
      c.fillStyle = p.ink; c.fillRect(now_px - 16, 53, 32, 17); c.fillStyle = p.panel; c.fillText('now', now_px, 62);
    }
    c.restore();
    c.fillStyle = p.ink2; c.textAlign = 'left'; c.fillText('GPUs held', 10, 28); c.fillStyle = p.ink3; c.fillText(day(Math.max(from_s, 1)), 10, 62);
    c.fillStyle = p.line; c.fillRect(0, TOP_PX - 1, width, 1);
  }

  const hitAt = event => { const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top; return py < TOP_PX ? null : hits.findLast(h => px >= h.a && px <= h.b && py >= h.y && py <= h.y + h.height); };
  canvas.addEventListener('pointerdown', event => { drag = { x: event.clientX, y: event.clientY, from_s, to_s, offset_px, isMoved: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener('pointermove', event => {
    if (drag && (Math.abs(event.clientX - drag.x) > 4 || Math.abs(event.clientY - drag.y) > 4)) drag.isMoved = true;
    if (drag && drag.isMoved) {
      const by_s = (drag.x - event.clientX) / (width_px() - GUTTER_PX) * (drag.to_s - drag.from_s);
      offset_px = drag.offset_px + drag.y - event.clientY;
      move(drag.from_s + by_s, drag.to_s + by_s);
      return;
    }
    const hit = hitAt(event);
    canvas.style.cursor = hit ? 'pointer' : 'default';
    if (hit) showTip(event.clientX, event.clientY, [...jobTip(jobOf(hit.job)), `${hit.span.isComing ? 'expected: ' : ''}${moment(hit.span.from_s)}, ${duration((hit.span.to_s ?? now_s()) - hit.span.from_s)}`]);
    else hideTip();
  });
  canvas.addEventListener('pointerup', event => { const wasDragged = drag?.isMoved; drag = null; const hit = hitAt(event); if (!wasDragged && hit) location.hash = jobHref({ id: hit.job }); });
  canvas.addEventListener('pointerleave', hideTip);
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    if (event.shiftKey) { offset_px += event.deltaY; draw(); } else zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, timeAt(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  const drawTools = () => tools.replaceChildren(
    choice([[1, '1 h'], [8, '8 h'], [24, '24 h']], 0, hours => move(now_s() - hours * 3600 * 0.8, now_s() + hours * 3600 * 0.2)),
    choice([['user', 'user'], ['queue', 'queue']], colourBy(), value => { setColourBy(value); drawTools(); draw(); }),
    el('span', { class: 'dim wide' }, ['w', 'a', 's', 'd'].map(k => el('kbd', {}, k)), ' zoom and move'));
  drawTools();
  let drawn_ms = 0;
  return {
    title: 'Timeline',
    update() {
      if (drag || performance.now() - drawn_ms < 1000) return;
      drawn_ms = performance.now();
      if (!isMoved) { const ahead_s = to_s - from_s; to_s = now_s() + ahead_s * 0.22; from_s = to_s - ahead_s; }
      draw();
    },
    resize: draw, close: hideTip,
    keys: { w: () => zoom(1 / 1.4), s: () => zoom(1.4), a: () => shift(-0.2), d: () => shift(0.2), Escape: () => { location.hash = '#/timeline'; } },
  };
}
