// A titled box of a page, and the strip of numbers.
import { html } from "../lib/html.js";

export function Panel({ title, note, aside, children, span, id, cls = "", label }) {
  return html`<section class="panel ${span ? `c${span}` : ""} ${cls}" id=${id} aria-label=${label ?? (typeof title === "string" ? title : null)}>
    ${title && html`<header><h2>${title}</h2>${note && html`<span class="quiet">${note}</span>`}<span class="fill"></span>${aside}</header>`}
    ${children}
  </section>`;
}

export function Head({ crumb, to, title, note, children }) {
  return html`<div class="head">
    ${crumb && html`<a class="crumb" href=${to}>${crumb} /</a>`}
    <h1 dir="auto">${title}</h1>${note && html`<span class="quiet">${note}</span>`}
    ${children ?? html`<span class="fill"></span>`}
  </div>`;
}

export function Facts({ rows }) {
  return html`<dl class="facts pad">
    ${rows.filter((row) => row && row[1] !== null && row[1] !== undefined && row[1] !== "").map(([name, value]) => html`<dt key=${`t${name}`}>${name}</dt><dd key=${`d${name}`}>${value}</dd>`)}
  </dl>`;
}

export function Segments({ label, options, value, to }) {
  return html`<span class="seg" role="group" aria-label=${label}>
    ${options.map(([key, text]) => html`<a key=${key} href=${to(key)} aria-current=${key === value ? "true" : null}>${text}</a>`)}
  </span>`;
}
