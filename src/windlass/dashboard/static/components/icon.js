// Every figure of the dashboard, by name. Drawn in place: no sprite, so that a base path does not matter.
import { html } from "../lib/html.js";

const FIGURES = {
  waiting: html`<circle cx="6" cy="6" r="4.6" stroke-dasharray="2 2.1"/>`,
  scheduled: html`<circle cx="6" cy="6" r="4.8"/><path d="M6 3.4V6l1.8 1.2"/>`,
  retry: html`<path d="M10.4 5.2A4.5 4.5 0 1 0 10 8.2M10.6 2.2v3h-3"/>`,
  queued: html`<path d="M1.5 2.8h9M1.5 6h9M1.5 9.2h5.5"/>`,
  processing: html`<path d="M3.2 1.8v8.4L10 6z" fill="currentColor"/>`,
  completed: html`<path d="M1.8 6.4 4.6 9.2 10.2 3"/>`,
  failed: html`<path d="M2.4 2.4l7.2 7.2M9.6 2.4 2.4 9.6" stroke-width="2"/>`,
  cancelled: html`<circle cx="6" cy="6" r="4.6"/><path d="M2.8 9.2 9.2 2.8"/>`,
  paused: html`<path d="M4 2.4v7.2M8 2.4v7.2" stroke-width="2"/>`,
  warn: html`<path d="M6 1.4 11 10.4H1zM6 5v2.2M6 8.9v.1"/>`,
  lost: html`<path d="M3.8 4.2A2.2 2.2 0 1 1 6.9 6.2C6.2 6.5 6 6.9 6 7.6M6 10v.1"/>`,
  drain: html`<path d="M6 1.8v6M3 5.6 6 8.4l3-2.8M2.4 10.6h7.2"/>`,
  more: html`<path d="M4.2 2.4 8 6 4.2 9.6"/>`,
  down: html`<path d="M2.6 4.4 6 7.8l3.4-3.4"/>`,
  find: html`<circle cx="5" cy="5" r="3.4"/><path d="M7.6 7.6 10.6 10.6"/>`,
  scale: html`<path d="M1.6 4.2h4.4M3.8 2v4.4M6.6 9h4"/>`,
  theme: html`<circle cx="6" cy="6" r="4.6"/><path d="M6 1.4a4.6 4.6 0 0 1 0 9.2z" fill="currentColor"/>`,
  deploy: html`<path d="M3 10.6V1.6h6L7.4 4 9 6.4H3"/>`,
  go: html`<path d="M1.8 6h8M6.6 2.8 9.9 6 6.6 9.2"/>`,
  copy: html`<path d="M4 4h6.4v6.4H4zM8 4V1.6H1.6V8H4"/>`,
};

export function Icon({ name, label }) {
  return html`<svg class="ico" viewBox="0 0 12 12" aria-hidden=${label ? null : "true"} role=${label ? "img" : null} aria-label=${label}>${FIGURES[name]}</svg>`;
}
