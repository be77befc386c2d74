// The palette: finds a screen, a phase, a job by its id, or an action. And the list of all keys.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";
import { go, jobLink, jobsLink, link, term } from "../lib/router.js";
import { GENERAL, screenKeys } from "../lib/keys.js";
import { switchTheme } from "../lib/theme.js";
import { number } from "../lib/format.js";
import { kinds, phases } from "../lib/facts.js";

const shown = signal("");
export const openPalette = () => (shown.value = "palette");
export const openHelp = () => (shown.value = "help");

const SCREENS = [["Overview", "/"], ["Pipelines", "/pipelines"], ["Jobs", "/jobs"], ["Failures", "/failures"], ["Schedules", "/schedules"], ["Processors", "/processors"], ["Operations", "/operations"], ["Audit", "/audit"], ["System", "/system"]];
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

function entries(text) {
  const wanted = text.trim().toLowerCase();
  const has = (name) => name.toLowerCase().includes(wanted);
  const found = [];
  if (ID.test(wanted)) found.push({ group: "Jobs", icon: "go", text: wanted, act: () => go(jobLink(wanted)) });
  for (const [name, to] of SCREENS) if (has(name)) found.push({ group: "Go to", icon: "go", text: name, act: () => go(link(to)) });
  for (const kind of kinds.value) if (wanted && has(kind.name)) found.push({ group: "Go to", icon: "go", text: kind.name, note: "board", act: () => go(link(`/pipelines/${encodeURIComponent(kind.name)}`)) });
  for (const phase of phases.value) if (wanted && has(phase.name)) found.push({ group: "Jobs", icon: "queued", text: `Jobs in ${phase.name}`, note: `${number(phase.counts.queued)} queued`, act: () => go(jobsLink(term("phase", phase.name))) });
  for (const state of ["failed", "processing", "queued", "waiting", "scheduled"]) if (has(`${state} jobs`)) found.push({ group: "Jobs", icon: state, state, text: `${state} jobs`, act: () => go(jobsLink(`state:${state}`)) });
  if (has("light or dark theme")) found.push({ group: "Do", icon: "theme", text: "Light or dark", act: switchTheme });
  if (wanted.includes(":")) found.push({ group: "Jobs", icon: "find", text: `Jobs with ${text.trim()}`, act: () => go(jobsLink(text.trim())) });
  return found.slice(0, 12);
}

export function Palette() {
  const dialog = useRef(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const what = shown.value;
  useLayoutEffect(() => {
    if (!what) return;
    setText("");
    setAt(0);
    if (!dialog.current.open) dialog.current.showModal();
    dialog.current.querySelector("input")?.focus();
  }, [what]);
  if (!what) return null;
  const close = () => {
    dialog.current?.close();
    shown.value = "";
  };
  const items = what === "palette" ? entries(text) : [];
  const choose = (item) => {
    close();
    item?.act();
  };
  const keyed = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (items.length) setAt((at + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(items[at]);
    }
  };
  const cancelled = (event) => {
    event.preventDefault();
    close();
  };
  const closed = (event) => event.target === dialog.current && close(); // browsers close some dialogs without asking first
  return html`<dialog class="palette" ref=${dialog} aria-label=${what === "help" ? "Keys" : "Find"} onCancel=${cancelled} onClose=${closed} onClick=${(event) => event.target === dialog.current && close()}>
    ${what === "help"
      ? html`<div class="ask"><b>Keys</b><span class="fill"></span><button type="button" class="btn plain small" onClick=${close}>Close</button></div><div class="keymap">
          <dl>${GENERAL.map(([key, name]) => html`<dt key=${key}>${key.split(" ").map((one) => html`<kbd key=${one}>${one}</kbd> `)}</dt><dd>${name}</dd>`)}</dl>
          ${screenKeys.list.length > 0 && html`<dl>${screenKeys.list.map(([key, name]) => html`<dt key=${key}><kbd>${key}</kbd></dt><dd>${name}</dd>`)}</dl>`}</div>`
      : html`<div class="ask"><${Icon} name="find" /><input aria-label="Find a page, a job or an action" role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant=${items.length ? `found-${at}` : null} placeholder="A page, a phase, the id of a job, or a filter" value=${text} spellcheck=${false} autocomplete="off" dir="auto"
            onInput=${(event) => { setText(event.target.value); setAt(0); }} onKeyDown=${keyed} /><kbd>esc</kbd></div>
          <ul id="found" role="listbox" aria-label="Found">${items.map((item, i) => html`<li key=${item.text} id=${`found-${i}`} role="option" aria-selected=${i === at} onMouseMove=${() => setAt(i)} onClick=${() => choose(item)} data-s=${item.state}>
            <${Icon} name=${item.icon} /><span dir="auto">${item.text}</span><small>${item.note ?? item.group}</small></li>`)}
            ${items.length === 0 && html`<li role="option" aria-selected="false"><span></span><span class="quiet">Nothing of this name</span></li>`}</ul>`}
  </dialog>`;
}
