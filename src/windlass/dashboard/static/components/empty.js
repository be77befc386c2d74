// What a place without data says: what is true, why, and the next command. And what a refusal says.
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";
import { Command } from "./marks.js";

export function Empty({ title, icon, state, children, commands = [] }) {
  return html`<div class="empty" data-s=${state}>
    <h3 dir="auto">${icon && html`<${Icon} name=${icon} /> `}${title}</h3>
    ${children && html`<p>${children}</p>`}
    ${commands.map((text) => html`<${Command} key=${text} text=${text} />`)}
  </div>`;
}

export function Refused({ problem, reload }) {
  if (!problem) return null;
  const title = problem.status === 403 ? "This needs another role" : problem.status === 404 ? "This is no longer kept, or never was" : (problem.title || "That did not work");
  return html`<div class="empty" role="alert">
    <h3><${Icon} name="warn" /> ${title}</h3>
    <p dir="auto">${problem.text ?? problem.message}</p>
    ${problem.request && html`<p class="quiet mono">request ${problem.request}</p>`}
    ${reload && html`<button type="button" class="btn" onClick=${reload}>Try again</button>`}
  </div>`;
}

// The content of a resource: its data, or why there is none.
export function Loaded({ of, children, rows = 3 }) {
  if (of.data) return children(of.data);
  if (of.problem) return html`<${Refused} problem=${of.problem} reload=${of.reload} />`;
  return html`<div class="skeleton" aria-busy="true" aria-label="Loading">${Array.from({ length: rows }, (_, i) => html`<i key=${i}></i>`)}</div>`;
}
