// A chart over time: uPlot draws, the legend is text above it and shows the values under the cursor, which all charts of a page share.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { day, time } from "../lib/format.js";
import { theme } from "../lib/theme.js";

const HEIGHT = 150;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const FONT = "11px system-ui, sans-serif";
const NONE = [];
const LONGEST_MARK = 18;

// series: [{label, state, kind: "line"|"area"|"bars", thin, right, rest}], data: [seconds, …values]. A series with `right` has a scale of its own, whose
// axis is labelled in the colour of the series. With `open` the last point is of a time that is not over: it is drawn dashed, and not in the legend.
export function Chart({ title, note, tag, data, series, format = String, log = false, open = false, marks = NONE, span, height = HEIGHT, empty = "Nothing happened in this time." }) {
  const place = useRef(null);
  const plot = useRef(null);
  const given = useRef(null);
  const drawnMarks = useRef(marks);
  drawnMarks.current = marks;
  const [at, setAt] = useState(null);
  const shape = JSON.stringify([series, log, theme.value, height, open]);
  const last = data[0].length - (open ? 2 : 1);
  const shown = at ?? last;
  const has = data[0].length > 1 && data.slice(1).some((values) => values.some((value) => value));
  useEffect(() => {
    if (!has) return undefined;
    const box = place.current;
    const made = new window.uPlot(options({ series, format, log, open, height, marks: drawnMarks, width: box.clientWidth || 300, onCursor: setAt }), open ? split(data, series) : data, box);
    plot.current = made;
    given.current = data;
    const sizes = new ResizeObserver(() => box.clientWidth && made.setSize({ width: box.clientWidth, height }));
    sizes.observe(box);
    return () => {
      sizes.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, has]);
  useEffect(() => {
    if (!plot.current || given.current === data) return;
    given.current = data;
    plot.current.setData(open ? split(data, series) : data);
  }, [data]);
  useEffect(() => plot.current?.redraw(false), [JSON.stringify(marks)]);
  return html`<figure class="panel chart ${span ? `c${span}` : ""}">
    <figcaption><b>${title}</b><span class="quiet">${note}</span>${tag}
      <span class="legend">${series.map((one, i) => one.label && html`<span key=${one.label} data-s=${one.state}><i class=${(one.kind ?? "line") === "line" ? (one.thin ? "thin" : "") : "box"}></i>${one.label}${one.right ? html` <small>right scale</small>` : ""} <b>${last < 0 ? "–" : format(data[i + 1][shown])}</b></span>`)}
      ${at !== null && html`<span class="quiet">at ${time(data[0][at] * 1000)}${open && at > last ? ", so far" : ""}</span>`}</span></figcaption>
    <div class="uplot-box" ref=${place} style=${{ height: `${height}px` }} role="img" aria-label=${`${title}: ${series.map((one, i) => one.label && `${one.label} ${last < 0 ? "–" : format(data[i + 1][last])}`).filter(Boolean).join(", ")}${marks.map((one) => `, deploy ${one.text} at ${time(one.at * 1000)}`).join("")}`}>
      ${!has && html`<p class="quiet no-data">${empty}</p>`}</div>
  </figure>`;
}

// Each series up to the last whole point, and behind them the same ones from there to the point that is not over; a bar stands alone.
function split([at, ...values], series) {
  const end = at.length - 1;
  const rest = (list, { kind }) => list.map((value, i) => (i < (kind === "bars" ? end : end - 1) ? null : value));
  return [at, ...values.map((list) => list.map((value, i) => (i < end ? value : null))), ...values.map((list, place) => rest(list, series[place]))];
}

function options({ series, format, log, open, height, marks, width, onCursor }) {
  const axis = { stroke: colour("--chart-axis"), font: FONT, ticks: { show: false }, grid: { show: false } };
  return {
    width, height,
    padding: [8, 14, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "board" }, y: false, drag: { x: false, y: false }, points: { size: 5 } },
    scales: {
      x: { time: true },
      y: log ? { distr: 3, range: (_, low, high) => [10 ** Math.floor(Math.log10(Math.max(low || 1, 0.1))), 10 ** Math.ceil(Math.log10(Math.max(high || 10, 10)))] } : { range: (_, low, high) => [0, nice(high)] },
      right: { range: (_, low, high) => [0, Math.max(4, nice(high) * 2)] }, // bars in the lower half, below the lines
    },
    axes: [
      { ...axis, space: 70, size: 24, values: (_, ticks) => ticks.map((tick, i) => label(tick, ticks, i)) },
      { ...axis, size: 46, gap: 4, space: 34, ...(!log && { incrs: WHOLE }), grid: { show: true, stroke: colour("--chart-grid"), width: 1, ...(log && { filter: powers }) }, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : format(tick))), ...(log && { filter: powers }) },
      ...series.filter((one) => one.right).map((one) => ({ ...axis, scale: "right", side: 1, size: 34, gap: 4, space: 34, stroke: colour(`--${one.state}`), values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : format(tick))) })),
    ],
    series: [{}, ...series.map((one) => drawn(one, log)), ...(open ? series.map((one) => unfinished(drawn(one, log), one)) : [])],
    hooks: {
      setCursor: [(made) => onCursor(made.cursor.left >= 0 && made.cursor.idx !== null ? made.cursor.idx : null)],
      draw: [(made) => drawMarks(made, marks.current)],
    },
  };
}

// Jobs are counted in whole numbers: so are the lines of a scale.
const WHOLE = [...Array(12).keys()].flatMap((power) => [1, 2, 5].map((times) => times * 10 ** power));

// The lines of a logarithmic scale: the powers of ten.
const powers = (_, splits) => splits.map((value) => (Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6) ? value : null));

function nice(high) {
  const top = Math.max(1, high || 0) * 1.05;
  const step = 10 ** Math.floor(Math.log10(top));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((times) => times * step).find((value) => value >= top) ?? top;
}

function label(tick, ticks, i) {
  const at = new Date(tick * 1000);
  const isLong = ticks.at(-1) - ticks[0] > 2 * 86400;
  if (isLong) return day(at).slice(5);
  if (ticks.some((one, place) => place > 0 && one - ticks[place - 1] < 60 && ticks[place - 1] !== null)) return time(at, true);
  return i === 0 || at.getHours() + at.getMinutes() > 0 ? time(at) : day(at).slice(5);
}

function drawn({ state, kind = "line", thin, right, rest }, log) {
  const line = rest ? colour("--chart-rest") : colour(`--${state}-solid`);
  const made = { scale: right ? "right" : "y", stroke: line, width: thin ? 1 : 1.6, points: { show: (_, number) => !kind.startsWith("bar") && kind !== "area" && _.data[number].filter((value) => value !== null).length < 3, size: 5, fill: line }, spanGaps: true };
  if (kind === "area") made.fill = rest ? line : colour(`--${state}-soft`);
  if (kind === "bars") Object.assign(made, { fill: line, width: 0, paths: window.uPlot.paths.bars({ size: [0.6, 6, 2] }) });
  if (log && kind === "area") delete made.fill;
  return made;
}

// The same series where its time is not over: a dashed line, a hollow bar.
function unfinished(made, { kind }) {
  const isBar = kind === "bars";
  return { ...made, fill: undefined, width: isBar ? 1 : made.width, dash: isBar ? [2, 2] : [3, 3], points: { show: false } };
}

// The text of a mark is left out where it would run into the one before.
function drawMarks(made, marks) {
  let free = 0;
  for (const mark of [...marks].sort((a, b) => a.at - b.at)) free = draw(made, mark, free);
}

function draw(made, { at, text }, free) {
  const x = Math.round(made.valToPos(at, "x", true));
  if (x < made.bbox.left || x > made.bbox.left + made.bbox.width) return free;
  const { ctx } = made;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("--chart-mark");
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(x, made.bbox.top);
  ctx.lineTo(x, made.bbox.top + made.bbox.height);
  ctx.stroke();
  ctx.font = `${11 * devicePixelRatio}px monospace`;
  const said = ` ${text.length > LONGEST_MARK ? `${text.slice(0, LONGEST_MARK - 1)}…` : text} `;
  const width = ctx.measureText(said).width;
  const isLast = x + width > made.bbox.left + made.bbox.width;
  const from = isLast ? x - width : x;
  ctx.textAlign = "left";
  if (from >= free) ctx.fillText(said, from, made.bbox.top + 8 * devicePixelRatio);
  ctx.restore();
  return from >= free ? from + width : free;
}

// A small line without axes, stretched to its box.
export function Spark({ values, state, label: said, bars }) {
  if (!values || values.length < 2) return html`<svg class="spark" viewBox="0 0 100 20" aria-hidden="true"></svg>`;
  const top = Math.max(1e-9, ...values) * 1.05;
  const step = 100 / (values.length - (bars ? 0 : 1));
  const spot = (value, i) => `${round(i * step)} ${round(20 - (18 * value) / top)}`;
  const line = values.map(spot).join(" ");
  return html`<svg class="spark" data-s=${state} viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label=${said}>
    ${bars
      ? values.map((value, i) => value > 0 && html`<rect key=${i} x=${round(i * step)} y=${round(20 - (18 * value) / top)} width=${round(step * 0.7)} height=${round((18 * value) / top)} />`)
      : html`<path class="area" d=${`M${line} 100 20V20H0Z`} /><path d=${`M${line}`} />`}
  </svg>`;
}

const round = (value) => Math.round(value * 10) / 10;
