// The life of a job as bars: hatched while it waited, solid while it ran, one row for each phase and one for each further attempt.
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";
import { day, duration, time } from "../lib/format.js";
import { isOver, titleOf } from "../lib/states.js";
import { labelOf } from "../lib/facts.js";

const MOST_ROWS = 60;
const BAD = new Set(["failed", "retried", "recovered", "cancelled"]);
const END = { completed: "completed", advanced: "completed", failed: "failed", retried: "failed", recovered: "warn", released: "waiting", cancelled: "cancelled" };

export function Timeline({ job, attempts, phases, now }) {
  const begin = Date.parse(job.created_at);
  const over = isOver(job.state) && job.finished_at ? Date.parse(job.finished_at) : now;
  const room = Math.max(over - begin, 50) * (isOver(job.state) ? 1.04 : 1.16);
  const x = (at) => `${Math.max(0, Math.min(100, (100 * (at - begin)) / room))}%`;
  const w = (from, to) => `${Math.max(0, (100 * (to - from)) / room)}%`;
  const rows = rowsOf(job, attempts, phases, over);
  const left = rows.length - MOST_ROWS;
  const shown = left > 0 ? [...rows.slice(0, 10), ...rows.slice(-MOST_ROWS + 10)] : rows;
  const nowline = isOver(job.state) ? null : html`<span class="nowline" style=${{ "--x": x(now) }}></span>`;
  return html`<div class="tl" role="img" aria-label=${said(titleOf(job), rows)}>
    <div><span></span><span class="axis">${ticks(begin, begin + room).map(({ at, text }) => html`<span key=${at} style=${{ "--x": x(at) }}>${text}</span>`)}</span><span></span></div>
    ${shown.map((row) => html`<div key=${row.key}>
      <span class="name ${row.sub ? "sub" : ""}" title=${row.name}>${row.sub ? row.name : html`<b dir="auto">${labelOf(row.name)}</b>`}</span>
      <span class="lane ${row.sub ? "sub" : ""} ${row.slim ? "slim" : ""}">
        ${row.bars.map((bar, i) => html`<i key=${i} class="${bar.wait ? "wait" : ""} ${bar.open ? "open" : ""}" data-s=${bar.state} title=${bar.title} style=${{ "--x": x(bar.from), "--w": w(bar.from, bar.to) }}></i>`)}
        ${row.end && html`<span class="end" style=${{ "--x": x(row.end.at) }} title=${row.end.title}><${Icon} name="failed" /></span>`}
        ${nowline}</span>
      <span class="dur ${row.sub ? "sub" : ""} ${row.quiet ? "quiet" : ""}">${row.time}</span>
    </div>`)}
    ${left > 0 && html`<div><span class="name sub">${left} more attempts</span><span class="lane sub"></span><span class="dur sub"></span></div>`}
  </div>`;
}

function rowsOf(job, attempts, phases, over) {
  const names = [...new Set([...(phases ?? []), ...attempts.map((one) => one.phase), job.phase])];
  const rows = [];
  let free = Date.parse(job.created_at);
  for (const name of names) {
    const own = attempts.filter((one) => one.phase === name);
    const bars = [];
    const parts = [];
    for (const one of own) {
      const from = Date.parse(one.started_at);
      const to = one.ended_at ? Date.parse(one.ended_at) : over;
      const state = one.ended_at ? (END[one.outcome] ?? "completed") : "processing";
      const where = [one.processor, one.ended_at ? `${time(one.started_at, true)} to ${time(one.ended_at, true)}` : `since ${time(one.started_at, true)}`].filter(Boolean).join(", ");
      const pair = [{ wait: true, state: "waiting", from: Math.min(free, from), to: from, title: `waited ${duration((from - free) / 1000)}` }, { state, from, to, open: !one.ended_at, title: where }];
      bars.push(...pair);
      parts.push({ one, pair, from, to, free });
      free = to;
    }
    if (name === job.phase && !isOver(job.state) && job.state !== "processing") bars.push({ wait: true, state: "waiting", from: free, to: over, title: `waits for ${duration((over - free) / 1000)}` });
    const several = own.length > 1;
    const ran = parts.reduce((sum, { from, to }) => sum + to - from, 0) / 1000;
    rows.push({ key: name, name, bars, slim: several, end: !several && own.length && BAD.has(own[0].outcome) ? { at: parts[0].to, title: own[0].outcome } : null, time: own.length ? duration(ran) : isOver(job.state) ? "not reached" : "not yet", quiet: !own.length });
    if (several)
      parts.forEach(({ one, pair, from, to }, i) =>
        rows.push({ key: `${name}${i}`, sub: true, name: `${one.generation > 1 ? `run ${one.generation}, ` : ""}attempt ${one.attempt}`, bars: pair, end: BAD.has(one.outcome) && one.ended_at ? { at: to, title: one.error?.type ?? one.outcome } : null, time: duration((to - from) / 1000) }),
      );
  }
  return rows;
}

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800, 2592000].map((s) => s * 1000);

// The times of the axis. Each text is as fine as the step, so that no two are the same.
function ticks(from, to) {
  const step = STEPS.find((one) => (to - from) / one <= 6) ?? (to - from) / 5;
  const digits = step < 100 ? 2 : 1;
  const text = (at) => (step >= 86400000 ? day(at).slice(5) : step >= 21600000 ? `${day(at).slice(5)} ${time(at)}` : step >= 60000 ? time(at) : step >= 1000 ? time(at, true) : `${time(at, true)}.${String(Math.round(at % 1000)).padStart(3, "0").slice(0, digits)}`);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at < to - step / 3; at += step) if (at > from + (to - from) * 0.04) found.push({ at, text: text(at) });
  return found;
}

const said = (title, rows) => `${title}: ${rows.slice(0, 12).map((row) => `${row.name} ${row.time}`).join(", ")}`;
