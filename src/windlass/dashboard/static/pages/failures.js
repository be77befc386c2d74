// Failed jobs by cause, the latest first, against three windows of time. A group unfolds to its newest jobs and their traceback.
import { useLayoutEffect, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { pathOf } from "../lib/api.js";
import { useResource } from "../lib/resource.js";
import { many, number } from "../lib/format.js";
import { adjust, adjusted, jobLink, jobsLink, link, query, term } from "../lib/router.js";
import { can } from "../lib/session.js";
import { now } from "../lib/live.js";
import { bulk } from "../lib/acts.js";
import { useKeysOf } from "../lib/keys.js";
import { causeOf, causeTerm, messageOf, titleOf } from "../lib/states.js";
import { Head, Segments } from "../components/panel.js";
import { Age, Count, JobId, Middle, Tag } from "../components/marks.js";
import { Empty, Loaded } from "../components/empty.js";
import { Traceback } from "../components/code.js";
import { Icon } from "../components/icon.js";

const NEW = 3600000;
const WINDOWS = [["hour", "1h", "<1h"], ["day", "24h", "<24h"], ["week", "7d", "<7d"]];
const keyOf = (group) => [group.kind, group.phase, group.type, group.code, group.place].join(" ");
const filterOf = (group) => ["state:failed", term("kind", group.kind), term("phase", group.phase), causeTerm(group)];

export function Failures() {
  const [kind, phase, open, by] = ["kind", "phase", "open", "by"].map((name) => query.value.get(name));
  const found = useResource(pathOf("/v1/failures", { kind, phase }), { every: 5, keep: true });
  const [at, setAt] = useState(-1);
  const groups = merged(found.data?.groups ?? [], by);
  const toggle = (group) => adjust({ open: open === keyOf(group) ? null : keyOf(group) });
  const retry = (group) => bulk("retry", group.filter.join(" "), found.reload);
  useLayoutEffect(() =>
    useKeysOf({
      j: ["Next group", () => setAt(Math.min(groups.length - 1, at + 1))],
      k: ["Group before", () => setAt(Math.max(0, at - 1))],
      Enter: ["Unfold", () => groups[at] && toggle(groups[at])],
      R: ["Retry the group", () => groups[at] && can("operate") && retry(groups[at])],
    }),
  );
  const sums = WINDOWS.map(([name]) => groups.reduce((total, group) => total + group[name], 0));
  const most = Math.max(1, ...groups.map((group) => group.week));
  return html`<${Head} title="Failures" note=${found.data ? `${many(groups.length, "group")}, by ${by ?? "cause, place and phase"}` : ""}><span class="fill"></span>
      ${(kind || phase) && html`<a class="btn small" href=${link("/failures")}>${kind ?? phase} <${Icon} name="failed" /></a>`}
      <span class="quiet hide-s">Group by</span><${Segments} label="Group by" value=${by ?? "error"} options=${[["error", "error"], ["kind", "kind"], ["phase", "phase"]]} to=${(key) => adjusted({ by: key === "error" ? null : key })} /><//>
    <section class="panel" aria-label="Groups of failures"><${Loaded} of=${found}>${() =>
      groups.length === 0
        ? html`<${Empty} title="Nothing failed" icon="completed" state="completed">No failed job is kept. <a href=${jobsLink("attempt:>1")}>See what was retried</a>.<//>`
        : html`<div class="scroll"><table class="table fails rows"><thead><tr><th>Error</th><th class="hide-l">Where</th>${WINDOWS.map(([name, text]) => html`<th key=${name} class="num">${text}</th>`)}<th class="num">All</th><th class="num hide-s">First</th><th class="num" aria-sort="ascending">Last</th><th><span class="sr">Actions</span></th></tr></thead>
          <tbody>${groups.map((group, i) => html`<${Group} key=${keyOf(group)} group=${group} most=${most} at=${i === at} open=${open === keyOf(group)} toggle=${() => toggle(group)} retry=${() => retry(group)} />`)}</tbody>
          <tfoot><tr><td>All groups</td><td class="hide-l"></td>${sums.map((sum, i) => html`<td key=${i} class="num"><b>${number(sum)}</b></td>`)}<td class="num"><b>${number(groups.reduce((total, group) => total + group.total, 0))}</b></td><td class="hide-s"></td><td></td><td></td></tr></tfoot></table></div>
          <p class="pager">${found.data.more ? `The newest ${number(found.data.searched)} failed jobs were grouped; there are more.` : "Every number opens the jobs it counts."}</p>`}<//></section>`;
}

function merged(groups, by) {
  const all = new Map();
  for (const group of groups) {
    const key = by ? group[by] : keyOf(group);
    const filter = by ? ["state:failed", term(by, group[by])] : filterOf(group);
    const old = all.get(key);
    if (!old) all.set(key, { ...group, filter, causes: 1 });
    else Object.assign(old, { causes: old.causes + 1, hour: old.hour + group.hour, day: old.day + group.day, week: old.week + group.week, total: old.total + group.total, first_at: old.first_at < group.first_at ? old.first_at : group.first_at });
  }
  return [...all.values()];
}

function Group({ group, most, at, open, toggle, retry }) {
  const isNew = now.value - Date.parse(group.first_at) < NEW;
  return html`<tr class=${`${open ? "open" : ""} ${at ? "at" : ""}`}>
      <td class="fx full"><div><button type="button" class="fold btn plain" aria-expanded=${open} aria-label=${`${open ? "Fold" : "Unfold"} ${causeOf(group)}`} onClick=${toggle}><${Icon} name=${open ? "down" : "more"} /></button>
        <div class="cutbox"><p><a class="mono ex" href=${jobsLink(...group.filter)} dir="auto">${causeOf(group)}</a>${isNew && html`<${Tag} state="failed">new<//>`}${group.causes > 1 && html`<${Tag}>${group.causes} causes<//>`}</p><p class="mono msg" dir="auto" title=${group.message}>${messageOf(group)}</p></div></div></td>
      <td class="wh hide-l"><p dir="auto">${group.kind} / <b>${group.phase}</b></p><p class="quiet mono" dir="auto" title=${group.place}>${group.place ?? ""}</p></td>
      ${WINDOWS.map(([name, text, age]) => html`<td key=${name} class="num" data-w=${text}>${group[name] ? html`<a class="heat" style=${{ "--h": `${Math.round(8 + (34 * Math.log(1 + group[name])) / Math.log(1 + most))}%` }} href=${jobsLink(...group.filter, `finished:>=${sinceOf(age, now.value)}`)} title=${`Open these ${group[name]} jobs`}>${number(group[name])}</a>` : html`<span class="quiet heat">0</span>`}</td>`)}
      <td class="num" data-w="all"><${Count} value=${group.total} to=${jobsLink(...group.filter)} /></td>
      <td class="num hide-s"><${Age} at=${group.first_at} plain /></td><td class="num" data-w="last"><${Age} at=${group.last_at} plain /></td>
      <td class="num do">${can("operate") && html`<button type="button" class="btn small" onClick=${retry}>Retry…</button>`}</td></tr>
    ${open && html`<tr class="detail"><td colspan="9"><${Detail} group=${group} retry=${retry} /></td></tr>`}`;
}

// The beginning of a window, by the quarter of an hour, so that the address stays the same for a while.
function sinceOf(age, at) {
  const hours = { "<1h": 1, "<24h": 24, "<7d": 168 }[age];
  return new Date(Math.floor(at / 60000) * 60000 - hours * 3600000).toISOString().slice(0, 16) + "Z";
}

function Detail({ group, retry }) {
  const newest = useResource(pathOf("/v1/jobs", { q: group.filter.join(" "), limit: 5 }), { every: 10, keep: true });
  const sample = useResource(`/v1/jobs/${encodeURIComponent(group.sample)}`, { keep: true });
  return html`<div class="dg two"><div><h2>Newest</h2><${Loaded} of=${newest}>${({ jobs }) => html`<table class="table tight"><tbody>${jobs.map((job) => html`<tr key=${job.id}><td class="mono"><${JobId} id=${job.id} /></td><td class="clip nm"><${Middle} text=${titleOf(job)} /></td><td class="num quiet">${job.attempt}/${job.max_attempts}</td><td class="num quiet"><${Age} at=${job.finished_at} plain /></td></tr>`)}</tbody></table>`}<//>
      <p class="acts">${can("operate") && html`<button type="button" class="btn small primary" onClick=${retry}>Retry ${number(group.total)} from ${group.phase}…</button>`}<a class="btn small" href=${jobsLink(...group.filter)}>All ${number(group.total)}</a><a class="btn small" href=${jobLink(group.sample)}>Open one</a></p></div>
    <div class="cutbox"><h2>Where it is raised</h2>${sample.data?.traceback ? html`<div class="panel"><${Traceback} text=${sample.data.traceback} /></div>` : html`<p class="quiet">${sample.loading ? "…" : "No traceback is kept, or it is not shown to you."}</p>`}</div></div>`;
}
