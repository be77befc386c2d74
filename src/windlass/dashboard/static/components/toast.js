// Short news at the edge of the screen: what was done, and a link to it.
import { signal } from "@preact/signals";
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";

const SHOWN = 7000;
const toasts = signal([]);
let number = 0;

export function toast(text, { to, open = "Open", bad = false } = {}) {
  const id = ++number;
  toasts.value = [...toasts.value.slice(-2), { id, text, to, open, bad }];
  setTimeout(() => close(id), bad ? 2 * SHOWN : SHOWN);
}

const close = (id) => (toasts.value = toasts.value.filter((one) => one.id !== id));

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map(
      (one) => html`<div class="toast" key=${one.id}>
        ${one.bad && html`<${Icon} name="warn" />`}<span dir="auto">${one.text}</span>
        ${one.to && html`<a class="btn small" href=${one.to} onClick=${() => close(one.id)}>${one.open}</a>`}
        <button type="button" class="btn small square" aria-label="Close" onClick=${() => close(one.id)}><${Icon} name="failed" /></button>
      </div>`,
    )}
  </div>`;
}
