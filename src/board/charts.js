/* charts.js - charts over time in SVG.
 *
 * Steps, lines and areas over one time axis, with marks, bands, a shaded future
 * and a crosshair that all charts of a group share. Two hundred lines serve the
 * whole board; the packed map and the timeline are in no library anyway.
 */
import { svg } from './dom.js';
import { clock, day, number } from './words.js';

const NICE_S = [1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

/* Round moments between two times, by the clock on the wall. */
export function timeTicks(from_s, to_s, most) {
  const step_s = NICE_S.find(s => (to_s - from_s) / s <= most) || 604800;
  const zone_s = new Date(from_s * 1000).getTimezoneOffset() * 60, ticks = [];
  for (let t = Math.ceil((from_s - zone_s) / step_s) * step_s + zone_s; t <= to_s && ticks.length < 100; t += step_s) ticks.push(t);
  return ticks;
}
export const tickText = (at_s, from_s, to_s) =>
  (to_s - from_s > 3 * 86400 ? day(at_s) : clock(at_s, to_s - from_s < 300));

/* The next round number above. */
export function niceMax(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find(m => value <= m * power * 1.0001);
}

function path(points, x, y, isStep) {
  let d = '';
  for (const [t, v] of points) {
    const px = x(t).toFixed(1), py = y(v).toFixed(1);
    d += d === '' ? `M${px} ${py}` : isStep ? `H${px}V${py}` : `L${px} ${py}`;
  }
  return d;
}

/* At most `most` points: of each group of neighbours the lowest and highest. */
export function thin(points, most = 600) {
  if (points.length <= most) return points;
  const size = Math.ceil(points.length / (most / 2)), out = [];
  for (let i = 0; i < points.length; i += size) {
    const group = points.slice(i, i + size);
    const low = group.reduce((a, b) => (b[1] < a[1] ? b : a)), high = group.reduce((a, b) => (b[1] > a[1] ? b : a));
    out.push(...(low[0] < high[0] ? [low, high] : low === high ? [low] : [high, low]));
  }
  const last = points[points.length - 1];
  if (out[out.length - 1] !== last) out.push(last);
  return out;
}

/* spec: { width_px, height_px, x: [from_s, to_s], title, value, series, max,
 *         cap, capText, marks, bands, now_s, format, group, label }
 * series: { points: [[at_s, value]], tone, isStep, isArea, dash } */
export function timeChart(spec) {
  const left = 46, right = 12, top = spec.title ? 24 : 12, bottom = spec.axis === false ? 8 : 22;
  const { width_px: width, height_px: height, x: [from_s, to_s] } = spec;
  const values = spec.series.flatMap(s => s.points.map(p => p[1]));
  const high = spec.max ?? niceMax(Math.max(spec.cap || 0, ...values, 1e-9));
  const x = t => left + (t - from_s) / (to_s - from_s) * (width - left - right);
  const y = v => top + (1 - v / high) * (height - top - bottom);
  const format = spec.format || number;
  const root = svg('svg', { class: 'chart', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': spec.label || spec.title });
  const put = (tag, props, ...kids) => root.append(svg(tag, props, ...kids));
  if (spec.now_s !== undefined && spec.now_s < to_s) put('rect', { class: 'future', x: x(spec.now_s), y: top, width: Math.max(0, x(to_s) - x(spec.now_s)), height: height - top - bottom });
  for (const band of spec.bands || []) {
    const a = x(Math.max(from_s, band.from_s)), b = x(Math.min(to_s, band.to_s));
    put('rect', { class: 'band', x: a, y: top, width: Math.max(0, b - a), height: height - top - bottom });
  }
  for (const v of spec.rows || [0, high / 2, high]) {
    put('line', { class: 'grid', x1: left, x2: width - right, y1: y(v), y2: y(v) });
    put('text', { class: 'end', x: left - 7, y: y(v) + 4 }, format(v));
  }
  if (spec.axis !== false)
    for (const t of timeTicks(from_s, to_s, Math.max(2, Math.floor((width - left) / 90))))
      if (x(t) > left + 14 && x(t) < width - 24) put('text', { class: 'mid', x: x(t), y: height - 6 }, tickText(t, from_s, to_s));
  if (spec.title) put('text', { class: 'title', x: left, y: 14 }, spec.title);
  if (spec.value) put('text', { class: 'value', x: width - right, y: 14 }, spec.value);
  for (const s of spec.series) {
    if (!s.points.length) continue;
    const points = thin(s.points), d = path(points, x, y, s.isStep);
    if (s.isArea) put('path', { class: `area f-${s.tone}`, d: `${d}V${y(0).toFixed(1)}H${x(points[0][0]).toFixed(1)}Z` });
    put('path', { class: `line l-${s.tone}`, d, 'stroke-dasharray': s.dash });
    if (points.length === 1) put('circle', { class: `dot l-${s.tone}`, cx: x(points[0][0]), cy: y(points[0][1]), r: 2.5 });
  }
  if (spec.cap) {
    put('line', { class: 'cap-line', x1: left, x2: width - right, y1: y(spec.cap), y2: y(spec.cap) });
    put('text', { class: 'end', x: width - right - 2, y: y(spec.cap) - 4 }, spec.capText || '');
  }
  for (const mark of spec.marks || []) {
    if (mark.at_s < from_s || mark.at_s > to_s) continue;
    put('line', { class: `mark l-${mark.tone}`, x1: x(mark.at_s), x2: x(mark.at_s), y1: top, y2: height - bottom, 'stroke-dasharray': mark.dash });
    if (mark.text) put('text', { class: `marktext t-${mark.tone}${mark.isLeft ? ' end' : ''}`, x: x(mark.at_s) + (mark.isLeft ? -5 : 5), y: top + 12 }, mark.text);
  }
  for (const band of spec.bands || []) {
    const a = x(Math.max(from_s, band.from_s)), b = x(Math.min(to_s, band.to_s));
    if (b - a > 64 && band.text) put('text', { class: 'bandtext', x: (a + b) / 2, y: (top + height - bottom) / 2 - 4 }, band.text);
  }
  addCross(root, spec, { x, top, bottom, left, right, width, height, from_s, to_s, format });
  return root;
}

/* The crosshair of a chart; those of its group move together. */
function addCross(root, spec, frame) {
  const line = svg('line', { class: 'cross', y1: frame.top, y2: frame.height - frame.bottom, visibility: 'hidden' });
  const text = svg('text', { class: 'crosstext', y: frame.top + 12, visibility: 'hidden' });
  root.append(line, text);
  root.cross = t => {
    const isIn = t !== null && t >= frame.from_s && t <= frame.to_s;
    line.setAttribute('visibility', isIn ? 'visible' : 'hidden');
    let value = null;
    for (const p of spec.series[0]?.points || []) { if (p[0] > t) break; value = p[1]; }
    text.setAttribute('visibility', isIn && value !== null ? 'visible' : 'hidden');
    if (!isIn) return;
    const px = frame.x(t);
    line.setAttribute('x1', px); line.setAttribute('x2', px);
    if (value === null) return;
    text.textContent = `${clock(t, frame.to_s - frame.from_s < 7200)}  ${frame.format(value)}${spec.unit || ''}`;
    text.setAttribute('x', Math.min(px + 6, frame.width - 110));
  };
  const all = () => spec.group || [root];
  root.addEventListener('mousemove', event => {
    const box = root.getBoundingClientRect();
    const share = ((event.clientX - box.left) * frame.width / box.width - frame.left) / (frame.width - frame.left - frame.right);
    for (const chart of all()) chart.cross(frame.from_s + share * (frame.to_s - frame.from_s));
  });
  root.addEventListener('mouseleave', () => { for (const chart of all()) chart.cross(null); });
}

/* From, likely and to on a scale of logarithms that all rows share. */
export function rangeBar(now_s, longest_s, [a_s, b_s], likely_s, width = 84) {
  const x = t => Math.max(2, Math.min(width - 2, Math.log1p(Math.max(0, t - now_s) / 60) / Math.log1p(longest_s / 60) * width));
  return svg('svg', { class: 'range', width, height: 12, 'aria-hidden': 'true' },
    svg('line', { class: 'grid', x1: 0, x2: width, y1: 6, y2: 6 }),
    svg('rect', { class: 'f-wait soft', x: x(a_s), y: 3, width: Math.max(3, x(b_s) - x(a_s)), height: 6, rx: 3 }),
    svg('circle', { class: 'f-wait', cx: x(likely_s), cy: 6, r: 3.2 }));
}
export const progressBar = (share, width = 84) => svg('svg', { class: 'range', width, height: 8, 'aria-hidden': 'true' },
  svg('rect', { class: 'f-line', width, height: 8, rx: 4 }),
  svg('rect', { class: 'f-run', width: width * Math.max(0, Math.min(1, share)), height: 8, rx: 4 }));
