// Acts on many jobs: how far each is, what was refused, and a stop. The audit trail is beside it.
import { html } from "../lib/html.js";
import { pathOf } from "../lib/api.js";
import { useResource } from "../lib/resource.js";
import { full, number } from "../lib/format.js";
import { jobLink, jobsLink, link, query } from "../lib/router.js";
import { can } from "../lib/session.js";
import { stopOperation } from "../lib/acts.js";
import { Pager } from "../components/pager.js";
import { Age, JobId, Progress, State } from "../components/marks.js";
import { Empty, Loaded } from "../components/empty.js";

export function OpsHead({ at }) {
  return html`<div class="head"><h1>Operations and audit</h1><span class="fill"></span><nav class="tabs bare" aria-label="Views"><a href=${link("/operations")} aria-current=${at === "operations" ? "true" : null}>Operations</a><a href=${link("/audit")} aria-current=${at === "audit" ? "true" : null}>Audit</a></nav></div>`;
}

export function Operations() {
  const cursor = query.value.get("cursor");
  const chosen = query.value.get("id");
  const found = useResource(pathOf("/v1/operations", { cursor, limit: 25 }), { every: 2, keep: true });
  return html`<${OpsHead} at="operations" />
    <section class="panel" aria-label="Operations"><${Loaded} of=${found}>${({ operations, next_cursor: next }) =>
      operations.length === 0
        ? html`<${Empty} title="No operation" commands=${['windlass jobs retry --where "state:failed" --reason "hotfix is out"']}>An act on many jobs, from the list of jobs or from the shell, is stored, done in the background, and shown here.<//>`
        : html`<div class="scroll"><table class="table rows"><thead><tr><th>Act</th><th>Jobs</th><th>Progress</th><th class="num">Done</th><th class="num">Refused</th><th class="hide-m">By</th><th class="num">Begun</th><th>State</th><th><span class="sr">Actions</span></th></tr></thead>
          <tbody>${operations.map((one) => html`<${Row} key=${one.id} one=${one} chosen=${chosen === one.id} reload=${found.reload} />`)}</tbody></table></div><${Pager} next=${next} note="newest first" />`}<//></section>`;
}

function Row({ one, chosen, reload }) {
  const share = one.matched ? (100 * Math.min(one.matched, one.done + one.refused)) / one.matched : 100;
  const over = one.state !== "running";
  return html`<tr class=${chosen ? "at" : ""}><td><b>${one.act.replace("_", " ")}</b></td>
      <td class="clip nm full" title=${one.filter}><a class="mono" href=${jobsLink(one.filter)} dir="auto">${one.filter || "all jobs"}</a></td>
      <td class="pg"><${Progress} value=${one.state === "done" ? 100 : share} state=${over ? "completed" : "processing"} /></td>
      <td class="num" data-w="done"><a href=${link("/audit", { target: "job", actor: one.actor })} title=${`The acts of ${one.actor} on jobs`}>${number(one.done)}</a> <small>of <a href=${jobsLink(one.filter)} title="The jobs that match now">${number(one.matched)}${one.is_exact ? "" : "+"}</a></small></td>
      <td class="num" data-w="refused">${one.refused ? html`<a href=${link("/operations", { id: chosen ? null : one.id })}>${number(one.refused)}</a>` : html`<span class="quiet">0</span>`}</td>
      <td class="hide-m cut" dir="auto" title=${one.reason}>${one.actor}${one.reason && html` <q class="quiet">${one.reason}</q>`}</td>
      <td class="num" title=${full(one.created_at)}><${Age} at=${one.created_at} /></td><td><${State} state=${one.state} /></td>
      <td class="num">${!over && can("operate") && html`<button type="button" class="btn small" onClick=${() => stopOperation(one, reload)}>Stop…</button>`}</td></tr>
    ${chosen && one.refusals.length > 0 && html`<tr class="detail"><td colspan="9"><table class="table tight"><tbody>${one.refusals.map((refusal) => html`<tr key=${refusal.job_id}><td class="mono"><${JobId} id=${refusal.job_id} /></td><td class="clip nm" dir="auto" title=${refusal.message}>${refusal.message}</td><td class="num"><a href=${jobLink(refusal.job_id)}>Open</a></td></tr>`)}</tbody></table></td></tr>`}`;
}
