// The small marks that every page has: states, progress, ages, ids, counts, and text that a person wrote.
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";
import { duration, full, number, shortId } from "../lib/format.js";
import { jobLink } from "../lib/router.js";
import { now } from "../lib/live.js";
import { toast } from "./toast.js";

export function State({ state, fill, big, text }) {
  return html`<span class="pill ${fill ? "fill" : ""} ${big ? "big" : ""}" data-s=${state}><${Icon} name=${ICONS[state] ?? state} />${text ?? state}</span>`;
}
const ICONS = { warn: "warn", active: "completed", gone: "cancelled", running: "processing", done: "completed", stopped: "paused", stopping: "drain", starting: "waiting", dead: "lost" };

export function Tag({ state, icon, children }) {
  return html`<span class="tag" data-s=${state}>${icon && html`<${Icon} name=${icon} />`}${children}</span>`;
}

export function Progress({ value, state, title }) {
  if (value === null || value === undefined) return null;
  const shown = Math.max(0, Math.min(100, value));
  return html`<div class="prog" data-s=${state} title=${title}>
    <div class="track"><i style=${{ "--v": `${shown}%` }}></i></div>
    <span class="num">${Math.floor(shown)}<small>%</small></span>
  </div>`;
}

// Which of its phases a job is in: one square each.
export function Steps({ phases, phase, state }) {
  const at = phases ? phases.indexOf(phase) : -1;
  if (!phases || phases.length < 2 || at < 0) return null;
  const isDone = state === "completed";
  if (phases.length > 12) return html`<span class="quiet">${at + 1}/${phases.length} </span>`;
  return html`<span class="steps" data-s=${state} title=${`phase ${at + 1} of ${phases.length}`}>
    ${phases.map((name, i) => html`<i key=${name} class=${i < at || isDone ? "on" : i === at ? "now" : ""}></i>`)}
  </span>`;
}

// A time as an age that counts on, or as a time to come; the whole of it is in the title.
export function Age({ at, plain }) {
  if (!at) return html`<span class="quiet">–</span>`;
  const seconds = (now.value - Date.parse(at)) / 1000;
  const text = seconds >= 0 ? `${duration(seconds)}${plain ? "" : " ago"}` : seconds > -2 ? "now" : `in ${duration(-seconds)}`;
  return html`<time datetime=${at} title=${full(at)}>${text}</time>`;
}

// A number that leads to the list it counts.
export function Count({ value, to, loud, more }) {
  const text = `${number(value)}${more ? "+" : ""}`;
  if (!to || value === null || value === undefined) return html`<span class=${value ? "" : "quiet"}>${text}</span>`;
  return html`<a href=${to} class=${value ? (loud ? "loud" : "") : "zero quiet"} data-s=${loud && value ? loud : null}>${text}</a>`;
}

const TAIL = 14;

// Text that is cut in its middle: names that begin alike are told apart by their ends.
export function Middle({ text }) {
  const parts = Array.from(text);
  return html`<span class="mid" dir="auto" title=${text}><span>${parts.slice(0, -TAIL).join("")}</span><span>${parts.slice(-TAIL).join("")}</span></span>`;
}

export function JobId({ id }) {
  return html`<a class="mono" href=${jobLink(id)} title=${id}>${shortId(id)}</a>`;
}

// Text that a person or a program wrote: never HTML, in its own direction, cut with the whole in the title.
export function Said({ text, tag = "span", ...rest }) {
  const props = { dir: "auto", title: text, ...rest };
  return tag === "a" ? html`<a ...${props}>${text}</a>` : html`<span ...${props}>${text}</span>`;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast("The browser does not allow copying here");
  }
}

export function CopyButton({ text, label }) {
  return html`<button type="button" class="btn plain small square" aria-label=${label} title=${label} onClick=${() => copy(text)}><${Icon} name="copy" /></button>`;
}

export function Command({ text }) {
  return html`<div class="cmd"><span class="p">$</span><span>${text}</span>
    <button type="button" class="btn plain small" onClick=${() => copy(text)}><${Icon} name="copy" />Copy</button></div>`;
}
