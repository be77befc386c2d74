// One dialog at a time: it says how many, what happens, what is left alone, and asks for a reason where the audit trail needs one.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { Problem } from "../lib/api.js";

const open = signal(null);

// ask({title, text, label, reason: "required" | "optional" | null, fields: [{name, label, ...}], act: async (values) => …}). `options` of a field
// is a function that returns [value, text] of each.
export function ask(wanted) {
  open.value = { ...wanted, opener: document.activeElement };
}

export const dialogIsOpen = () => open.value !== null;

export function Dialog() {
  const shown = open.value;
  return shown ? html`<${Shown} key=${shown.title} ...${shown} />` : null;
}

function Shown({ title, text, label, keep = "Keep as is", reason, hint, fields = [], act, danger, opener, wide }) {
  const dialog = useRef(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  useLayoutEffect(() => {
    dialog.current.showModal();
    dialog.current.querySelector("input:not([type=checkbox]), textarea, select")?.focus();
  }, []);
  const close = () => {
    dialog.current?.close();
    open.value = null;
    if (opener?.isConnected) opener.focus();
  };
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const values = Object.fromEntries(form);
    for (const field of fields) if (field.type === "checkbox") values[field.name] = form.has(field.name);
    if (typeof values.reason === "string") values.reason = values.reason.trim();
    setBusy(true);
    setProblem("");
    try {
      await act(values);
      close();
    } catch (error) {
      setBusy(false);
      setProblem(error instanceof Problem ? error.text : String(error.message ?? error));
    }
  };
  const cancelled = (event) => {
    event.preventDefault();
    close();
  };
  const closed = (event) => event.target === dialog.current && close(); // browsers close some dialogs without asking first
  return html`<dialog class="dialog ${wide ? "wide" : ""}" ref=${dialog} aria-labelledby="dialog-title" onCancel=${cancelled} onClose=${closed} onClick=${(event) => event.target === dialog.current && close()}>
    <form onSubmit=${submit}>
      <h2 id="dialog-title" dir="auto">${title}</h2>
      <div class="body">
        ${text && html`<p>${text}</p>`}
        ${fields.map((field) => html`<${Field} key=${field.name} ...${field} />`)}
        ${reason &&
        html`<label class="field"><span>${hint ?? "Reason, kept in the audit trail"}${reason === "optional" ? " (may be empty)" : ""}</span>
          <input name="reason" maxlength="500" autocomplete="off" required=${reason === "required"} dir="auto" placeholder="for example: hotfix is out" /></label>`}
        ${problem && html`<p class="banner in" data-s="failed" role="alert"><span dir="auto">${problem}</span></p>`}
      </div>
      <footer><span class="fill"></span>
        <button type="button" class="btn" onClick=${close}>${keep}</button>
        <button type="submit" class="btn primary ${danger ? "risky" : ""}" disabled=${busy}>${busy ? "Working…" : label}</button></footer>
    </form>
  </dialog>`;
}

function Field({ name, label, type = "text", value, options, rows, ...rest }) {
  if (type === "checkbox") return html`<label class="tick"><input class="check" type="checkbox" name=${name} defaultChecked=${value} /> ${label}</label>`;
  const control = options
    ? html`<select name=${name} defaultValue=${value} ...${rest}>${options().map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}</select>`
    : rows
      ? html`<textarea name=${name} rows=${rows} spellcheck=${false} ...${rest}>${value}</textarea>`
      : html`<input name=${name} type=${type} defaultValue=${value} autocomplete="off" ...${rest} />`;
  return html`<label class="field"><span>${label}</span>${control}</label>`;
}
