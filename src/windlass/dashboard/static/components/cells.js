// Processors: one cell each with the time that its job has used, or one bar of shares for a large pool; small marks for tables.
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";
import { duration, many } from "../lib/format.js";
import { jobLink, link } from "../lib/router.js";

const MOST = 64;
const ICON = { error: "failed", blocked: "paused", draining: "drain", lost: "lost" };
const ORDER = ["busy", "idle", "blocked", "starting", "draining", "error", "lost"];
const NEAR = 0.85;

// The processors of a phase on all instances: what each does now. Idle ones have no row of their own, so they are counted up.
export function processorsOf(name, instances, now) {
  const found = [];
  for (const one of instances) {
    if (one.state === "stopped" || one.state === "dead") continue;
    const phase = one.phases.find((other) => other.name === name);
    if (!phase) continue;
    const running = one.running.filter((item) => item.phase === name || item.name?.startsWith(`${name}-`));
    const away = one.state === "lost";
    for (const item of running) {
      const used = item.since ? (now - Date.parse(item.since)) / 1000 : null;
      found.push({ name: item.name, host: one.host, pid: one.pid, instance: one.id, job: item.job, since: item.since, used, state: away ? "lost" : item.state === "error" ? "error" : "busy", limit: item.limit ?? phase.timeout ?? null });
    }
    const rest = Math.max(0, phase.size - running.length);
    const idle = away ? "lost" : one.state === "starting" ? "starting" : one.state === "stopping" ? "draining" : phase.held_by ? "blocked" : "idle";
    for (let i = 0; i < rest; i += 1) found.push({ name: `${name}, free place ${i + 1}`, host: one.host, pid: one.pid, instance: one.id, state: i < phase.error ? "error" : idle, held: phase.held_by });
  }
  return found;
}

export const countsOf = (cells) => ORDER.map((state) => [state, cells.filter((cell) => cell.state === state).length]).filter(([, count]) => count);

function levelOf(cell) {
  if (cell.used === null || cell.used === undefined) return 0.3;
  return cell.limit ? Math.min(1, cell.used / cell.limit) : Math.min(0.8, 0.08 + Math.log10(1 + cell.used) / 5);
}

const titleOf = (cell) => `${cell.name} on ${cell.host}: ${cell.state === "busy" ? `busy for ${duration(cell.used)}${cell.limit ? ` of ${duration(cell.limit)}` : ""}` : cell.state === "blocked" ? `held, ${cell.held} is full` : cell.state}`;

export function Cells({ cells, onShow, shown }) {
  if (cells.length > MOST) return html`<${Share} cells=${cells} />`;
  const walk = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 8, ArrowLeft: -1, ArrowUp: -8 }[event.key];
    if (!step) return;
    const all = [...event.currentTarget.children];
    const next = all[all.indexOf(document.activeElement) + step];
    if (next) {
      event.preventDefault();
      next.focus();
    }
  };
  return html`<div class="cells" onKeyDown=${walk}>${cells.map((cell, i) => {
    const level = levelOf(cell);
    const name = `${cell.instance}${cell.name}`;
    return html`<a key=${`${name}${i}`} class="cell ${cell.state === "busy" && cell.limit && level >= NEAR ? "late" : ""}" data-s=${cell.state} tabindex=${i ? -1 : 0} aria-expanded=${shown === name ? "true" : null}
      href=${cell.job ? jobLink(cell.job) : link("/processors", { instance: cell.instance })} title=${titleOf(cell)} aria-label=${titleOf(cell)}
      style=${cell.state === "busy" ? { "--v": `${Math.round(level * 100)}%` } : undefined}
      onMouseEnter=${(event) => onShow?.(cell, name, event.currentTarget)} onFocus=${(event) => onShow?.(cell, name, event.currentTarget)}>
      ${ICON[cell.state] && html`<${Icon} name=${ICON[cell.state]} />`}</a>`;
  })}</div>`;
}

export function Share({ cells }) {
  const counts = countsOf(cells);
  return html`<div class="pool"><div class="share" role="img" aria-label=${counts.map(([state, count]) => `${count} ${state}`).join(", ")}>
    ${counts.map(([state, count]) => html`<i key=${state} data-s=${state} style=${{ "--w": count }}></i>`)}</div>
    <p class="keyline">${counts.map(([state, count]) => html`<span key=${state}><${KeyCell} state=${state} />${count} ${state === "blocked" ? "held" : state}</span>`)}</p></div>`;
}

function KeyCell({ state, late }) {
  return html`<span aria-hidden="true" class="cell ${late ? "late" : ""}" data-s=${state} style=${state === "busy" ? { "--v": late ? "92%" : "45%" } : undefined}>${ICON[state] && html`<${Icon} name=${ICON[state]} />`}</span>`;
}

export function CellKey() {
  const texts = [["idle", "idle"], ["busy", "busy, level is time used"], ["late", "near its limit"], ["blocked", "held, next queue is full"], ["error", "last attempt failed"], ["starting", "starting"], ["draining", "draining"], ["lost", "lost"]];
  return html`<div class="keyline" aria-label="Key">${texts.map(([state, text]) => html`<span key=${state}><${KeyCell} state=${state === "late" ? "busy" : state} late=${state === "late"} />${text}</span>`)}</div>`;
}

// One narrow mark per processor, for rows of tables.
export function Mini({ cells, label }) {
  if (!cells.length) return html`<span class="quiet">none</span>`;
  if (cells.length > 24) {
    const busy = cells.filter((cell) => cell.state === "busy").length;
    return html`<span class="mini-share" title=${`${busy} of ${cells.length} busy`}><span class="share">${countsOf(cells).map(([state, count]) => html`<i key=${state} data-s=${state} style=${{ "--w": count }}></i>`)}</span></span>`;
  }
  const width = cells.length * 6;
  return html`<svg class="mini" width=${width} height="14" viewBox=${`0 0 ${width} 14`} role="img" aria-label=${label ?? `${many(cells.length, "processor")}, ${cells.filter((cell) => cell.state === "busy").length} busy`}>
    ${cells.map((cell, i) => html`<rect key=${i} class=${cell.state} x=${i * 6 + 0.5} y="1.5" width="4" height="11" rx="1" />`)}</svg>`;
}
