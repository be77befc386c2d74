// Schedules: when they fire next, what they did last, and acts on them.
import { html } from "../lib/html.js";
import { useResource } from "../lib/resource.js";
import { full, many, number, schedule, shortTime } from "../lib/format.js";
import { adjust, jobLink, jobsLink, query, term } from "../lib/router.js";
import { can } from "../lib/session.js";
import { now } from "../lib/live.js";
import { scheduleAct } from "../lib/acts.js";
import { Head } from "../components/panel.js";
import { Age, State, Tag } from "../components/marks.js";
import { Empty, Loaded } from "../components/empty.js";
import { Icon } from "../components/icon.js";

export function Schedules() {
  const found = useResource("/v1/schedules", { every: 5, keep: true });
  const open = query.value.get("open");
  const list = found.data?.schedules ?? [];
  return html`<${Head} title="Schedules" note=${list.length ? many(list.length, "schedule") : ""} />
    <section class="panel" aria-label="Schedules"><${Loaded} of=${found}>${() =>
      list.length === 0
        ? html`<${Empty} title="No schedule" commands=${["windlass schedules ls"]}>A schedule is a line above a function, such as <code>@app.schedule("0 6 * * *", tz="Europe/Berlin")</code>. It fires once for each due time, however many instances run.<//>`
        : html`<div class="scroll"><table class="table rows"><thead><tr><th>Name</th><th>When</th><th class="hide-m">Kind</th><th class="num">Next</th><th class="num">Last</th><th class="num hide-m">Missed</th><th>State</th><th><span class="sr">Actions</span></th></tr></thead>
          <tbody>${list.map((one) => html`<${Row} key=${one.name} one=${one} open=${open === one.name} toggle=${() => adjust({ open: open === one.name ? null : one.name })} reload=${found.reload} />`)}</tbody></table></div>`}<//></section>`;
}

function Row({ one, open, toggle, reload }) {
  return html`<tr class=${open ? "open" : ""}>
      <td class="full"><button type="button" class="fold btn plain" aria-expanded=${open} aria-label=${`${open ? "Fold" : "Unfold"} ${one.name}`} onClick=${toggle}><${Icon} name=${open ? "down" : "more"} /></button><b dir="auto" class="short" title=${one.name}>${one.name}</b></td>
      <td class="full"><span title=${one.expression}>${schedule(one.expression)}</span> <small>${one.tz}</small></td>
      <td class="hide-m"><a class="quiet" href=${jobsLink(term("kind", one.kind))} dir="auto">${one.kind}</a></td>
      <td class="num" data-w="next">${one.next_at ? html`<${Age} at=${one.next_at} />` : html`<span class="quiet">–</span>`}</td>
      <td class="num" data-w="last">${one.last_at ? (one.last_job ? html`<a href=${jobLink(one.last_job)}><${Age} at=${one.last_at} /></a>` : html`<${Age} at=${one.last_at} />`) : html`<span class="quiet">not yet</span>`}</td>
      <td class="num hide-m">${one.skipped ? number(one.skipped) : html`<span class="quiet">0</span>`}</td>
      <td>${one.state === "paused" ? html`<${Tag} state="paused" icon="paused">paused<//> <span class="quiet short" dir="auto" title=${one.pause_reason}>${one.pause_reason}</span>` : one.state === "gone" ? html`<${State} state="cancelled" text="gone from its code" />` : html`<span class="quiet">active</span>`}</td>
      <td class="num"><span class="acts tight">${can("operate") && html`<button type="button" class="btn small" onClick=${() => scheduleAct(one.name, "run-now", reload)}>Run now…</button>
        ${one.state === "paused" ? html`<button type="button" class="btn small" onClick=${() => scheduleAct(one.name, "resume", reload)}>Resume…</button>` : html`<button type="button" class="btn small" onClick=${() => scheduleAct(one.name, "pause", reload)}>Pause…</button>`}`}</span></td></tr>
    ${open && html`<tr class="detail"><td colspan="8"><${Detail} one=${one} /></td></tr>`}`;
}

function Detail({ one }) {
  const at = `/v1/schedules/${encodeURIComponent(one.name)}`;
  const next = useResource(`${at}/next?count=8`, { keep: true, again: one.next_at });
  const ticks = useResource(`${at}/ticks?limit=8`, { keep: true, again: one.last_at });
  return html`<div class="dg"><div><h2>Next</h2><${Loaded} of=${next}>${({ times }) => (times.length ? html`<ol class="plainlist">${times.map((time) => html`<li key=${time}><time title=${full(time)}>${shortTime(time, now.value)}</time> <small><${Age} at=${time} /></small></li>`)}</ol>` : html`<p class="quiet">It does not fire.</p>`)}<//></div>
    <div><h2>Last</h2><${Loaded} of=${ticks}>${({ ticks: list }) => (list.length ? html`<ol class="plainlist">${list.map((tick) => html`<li key=${tick.at}><a href=${jobLink(tick.job_id)} title=${full(tick.at)}>${shortTime(tick.at, now.value)}</a>${tick.covers > 1 && html` <small>stands for ${tick.covers} due times</small>`}</li>`)}</ol>` : html`<p class="quiet">It has not fired yet.</p>`)}<//></div>
    <div><h2>Definition</h2><p class="mono">${one.expression} <small>${one.tz}</small></p><p class="quiet">Missed times: ${one.missed}. Priority ${one.priority}. ${one.source === "code" ? "Defined in code: what is removed here comes back when a worker with that code starts." : `Defined by ${one.source}.`}</p></div></div>`;
}
