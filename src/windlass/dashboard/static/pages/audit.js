// Who did what, when and why, with what it changed.
import { html } from "../lib/html.js";
import { pathOf } from "../lib/api.js";
import { useResource } from "../lib/resource.js";
import { full } from "../lib/format.js";
import { adjust, jobLink, link, query } from "../lib/router.js";
import { Pager } from "../components/pager.js";
import { Age } from "../components/marks.js";
import { Empty, Loaded } from "../components/empty.js";
import { Json } from "../components/code.js";
import { Icon } from "../components/icon.js";
import { OpsHead } from "./operations.js";

const TARGETS = ["", "job", "phase", "schedule", "operation", "instance", "rule", "token", "database"];

export function Audit() {
  const [cursor, target, name, actor] = ["cursor", "target", "name", "actor"].map((key) => query.value.get(key));
  const found = useResource(pathOf("/v1/audit", { cursor, target, name, actor, limit: 40 }), { every: 10, keep: true });
  const open = query.value.get("open");
  return html`<${OpsHead} at="audit" />
    <div class="filters">
      <label class="field"><span>Target</span><select value=${target ?? ""} onChange=${(event) => adjust({ target: event.target.value, cursor: null })}>${TARGETS.map((one) => html`<option key=${one} value=${one} selected=${one === (target ?? "")}>${one || "any"}</option>`)}</select></label>
      <label class="field"><span>Id or name of the target</span><input value=${name ?? ""} dir="auto" onChange=${(event) => adjust({ name: event.target.value.trim(), cursor: null })} /></label>
      <label class="field"><span>Actor</span><input value=${actor ?? ""} dir="auto" onChange=${(event) => adjust({ actor: event.target.value.trim(), cursor: null })} /></label></div>
    <section class="panel below" aria-label="Audit"><${Loaded} of=${found}>${({ records, next_cursor: next }) =>
      records.length === 0
        ? html`<${Empty} title="No act is recorded here" commands=${["windlass audit"]}>Acts of people are recorded with who, when, why, and what they changed.<//>`
        : html`<div class="scroll"><table class="table rows"><thead><tr><th>When</th><th>Who</th><th>Act</th><th>Target</th><th>Reason</th><th><span class="sr">Details</span></th></tr></thead>
          <tbody>${records.map((one) => html`<tr key=${one.id}><td title=${full(one.at)}><${Age} at=${one.at} /></td><td><b dir="auto" class="short">${one.actor}</b></td><td>${one.act.replaceAll(/[._]/g, " ")}</td><td class="mono cut" dir="auto" title=${one.name}>${targetOf(one)}</td><td class="clip nm full" dir="auto" title=${one.reason}>${one.reason ?? html`<span class="quiet">–</span>`}</td>
              <td class="num">${(one.before || one.after) && html`<button type="button" class="fold btn plain" aria-expanded=${open === String(one.id)} aria-label="What it changed" onClick=${() => adjust({ open: open === String(one.id) ? null : one.id })}><${Icon} name=${open === String(one.id) ? "down" : "more"} /></button>`}</td></tr>
            ${open === String(one.id) && html`<tr class="detail"><td colspan="6"><div class="dg two"><div><h2>Before</h2><${Json} value=${one.before} /></div><div><h2>After</h2><${Json} value=${one.after} /></div></div></td></tr>`}`)}</tbody></table></div><${Pager} next=${next} note="newest first" />`}<//></section>`;
}

function targetOf(one) {
  if (one.target === "job") return html`<a href=${jobLink(one.name)}>…${one.name.slice(-6)}</a>`;
  if (one.target === "operation") return html`<a href=${link("/operations", { id: one.name })}>…${one.name.slice(-6)}</a>`;
  return one.name;
}
