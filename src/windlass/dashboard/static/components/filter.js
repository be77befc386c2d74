// The filter bar: whole terms as tokens, the last one free to type, with completion of keys and then of values.
import { useRef, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { completions, isWhole, split } from "../lib/filters.js";
import { Icon } from "./icon.js";

export function FilterBar({ value, onChange, hits, facts = {}, problem, label = "Filter" }) {
  const terms = split(value);
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(-1);
  const [open, setOpen] = useState(false);
  const input = useRef(null);
  const { title, items } = open ? completions(typed, facts) : { items: [] };

  const apply = (text) => {
    setAt(-1);
    setTyped("");
    onChange([...terms, ...split(text)].join(" "));
  };
  const remove = (index) => onChange(terms.filter((_, i) => i !== index).join(" "));
  const choose = (item) => {
    setAt(-1);
    if (item.goesOn) {
      setTyped(item.text);
      input.current.focus();
    } else {
      setTyped("");
      apply(item.text);
    }
  };
  const keyed = (event) => {
    const key = event.key;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      if (!open) setOpen(true);
      else if (items.length) setAt((at + (key === "ArrowDown" ? 1 : items.length) + (at < 0 && key === "ArrowUp" ? 0 : 0)) % items.length);
    } else if (key === "Tab" && !event.shiftKey && open && items.length && (typed || at >= 0)) {
      event.preventDefault();
      choose(items[Math.max(at, 0)]);
    } else if (key === "Enter") {
      event.preventDefault();
      if (open && at >= 0) choose(items[at]);
      else if (typed.trim()) apply(typed.trim());
      setOpen(false);
    } else if (key === "Escape") {
      if (open) setOpen(false);
      else input.current.blur();
    } else if (key === "Backspace" && !typed && terms.length) {
      event.preventDefault();
      setTyped(terms.at(-1));
      onChange(terms.slice(0, -1).join(" "));
    } else if (key === " " && isWhole(typed)) {
      event.preventDefault();
      apply(typed);
    }
  };
  return html`<div class="filter ${open ? "open" : ""} ${problem ? "wrong" : ""}" role="search">
    <${Icon} name="find" />
    ${terms.map((term, i) => html`<${Token} key=${`${i}${term}`} term=${term} onRemove=${() => remove(i)} />`)}
    <input ref=${input} aria-label=${label} value=${typed} spellcheck=${false} autocomplete="off" autocapitalize="off" dir="auto" enterkeyhint="search"
      role="combobox" aria-expanded=${open && items.length > 0} aria-controls="completions" aria-autocomplete="list" aria-activedescendant=${at >= 0 ? `completion-${at}` : null}
      placeholder=${terms.length ? "" : "state:failed phase:render args.user:42 age:<1h"}
      onFocus=${() => setOpen(true)} onBlur=${() => setOpen(false)} onKeyDown=${keyed}
      onInput=${(event) => { setTyped(event.target.value); setAt(-1); setOpen(true); }} />
    ${hits && html`<span class="hits">${hits}</span>`}<kbd class="hide-s">/</kbd>
    ${open && items.length > 0 && html`<div class="pop suggest" id="completions" role="listbox" aria-label="Completions">
      <h4 role="presentation">${title}</h4>
      <ul role="group">${items.map((item, i) => html`<li key=${item.text} id=${`completion-${i}`} role="option" aria-selected=${i === at}
        onMouseDown=${(event) => { event.preventDefault(); choose(item); }}>
        <span class="mono" dir="auto">${item.text.slice(0, item.at)}<mark>${item.text.slice(item.at, item.at + item.length)}</mark>${item.text.slice(item.at + item.length)}</span><span class="quiet">${item.note}</span></li>`)}</ul>
      <div class="keys hide-s"><span><kbd>↑</kbd> <kbd>↓</kbd> choose</span><span><kbd>Tab</kbd> accept</span><span><kbd>-</kbd> before a word excludes it</span></div>
    </div>`}
    ${problem && html`<p class="wrong-text" role="alert" dir="auto">${problem}</p>`}
  </div>`;
}

function Token({ term, onRemove }) {
  const colon = term.indexOf(":");
  return html`<span class="token" title=${term}><b>${term.slice(0, colon + 1)}</b><span dir="auto">${term.slice(colon + 1)}</span>
    <button type="button" aria-label=${`Remove ${term}`} onClick=${onRemove}><${Icon} name="failed" /></button></span>`;
}
