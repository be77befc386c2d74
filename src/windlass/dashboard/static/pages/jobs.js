// The list of jobs: filter, keyset pages, selection, acts on many, saved views.
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { pathOf } from "../lib/api.js";
import { useResource } from "../lib/resource.js";
import { capped, number } from "../lib/format.js";
import { adjust, jobLink, link, query, go, term } from "../lib/router.js";
import { can, session } from "../lib/session.js";
import { now } from "../lib/live.js";
import { markOf, nextOf, titleOf } from "../lib/states.js";
import { bulk, submitJob } from "../lib/acts.js";
import { useKeysOf } from "../lib/keys.js";
import { kept } from "../lib/kept.js";
import { exceptions } from "../lib/failing.js";
import { instances, kinds, labelOf, phases, phasesOf, totals } from "../lib/facts.js";
import { exportJobs } from "../lib/export.js";
import { FilterBar } from "../components/filter.js";
import { Pager } from "../components/pager.js";
import { Empty, Loaded } from "../components/empty.js";
import { Age, JobId, Progress, State, Steps } from "../components/marks.js";
import { Icon } from "../components/icon.js";
import { ask } from "../components/dialog.js";

const LIMIT = 30;
const EVERY = 2;
const views = kept("views", []);

const builtIn = () => [["All", ""], ["Last 24 h", "age:<24h"], ["Running", "state:processing"], ["Failed", "state:failed"], ["Stuck", "state:waiting,scheduled,queued age:>1h"], ...(session.value?.subject ? [["Mine", term("principal", session.value.subject)]] : [])];

export function Jobs() {
  const q = query.value.get("q") ?? "";
  const cursor = query.value.get("cursor");
  const page = useResource(pathOf("/v1/jobs", { q, cursor, limit: LIMIT }), { every: EVERY, keep: true });
  const counted = useResource(pathOf("/v1/jobs/count", { q }), { every: 15, keep: true });
  const [selected, setSelected] = useState(new Set());
  const [all, setAll] = useState(false);
  const [at, setAt] = useState(-1);
  const [hovered, setHovered] = useState(false);
  const [frozen, setFrozen] = useState(null);
  const fresh = page.data?.jobs ?? [];
  const held = (selected.size > 0 || hovered) && frozen?.key === q + cursor;
  useEffect(() => {
    if (!page.data || page.loading) return;
    if (!held) setFrozen({ key: q + cursor, ids: page.data.jobs.map((job) => job.id), rows: new Map(page.data.jobs.map((job) => [job.id, job])) });
    else for (const job of page.data.jobs) if (frozen.rows.has(job.id)) frozen.rows.set(job.id, job);
  }, [page.data]);
  useEffect(() => {
    setSelected(new Set());
    setAll(false);
    setAt(-1);
  }, [q, cursor]);
  const rows = held ? frozen.ids.map((id) => fresh.find((job) => job.id === id) ?? frozen.rows.get(id)) : fresh;
  const newer = held && !cursor ? fresh.filter((job) => !frozen.rows.has(job.id)).length : 0;

  const toggle = (id) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    setSelected(next);
    setAll(false);
  };
  const clear = () => {
    setSelected(new Set());
    setAll(false);
  };
  const act = (name) => selected.size && can(name === "delete" || name === "priority" ? "edit" : "operate") && bulk(name, all ? q : `id:${[...selected].join(",")}`, () => { clear(); page.reload(); });
  const move = (step) => {
    const next = Math.max(0, Math.min(rows.length - 1, at + step));
    setAt(next);
    document.querySelectorAll(".jobs tbody tr")[next]?.scrollIntoView({ block: "nearest" });
  };
  useLayoutEffect(() =>
    useKeysOf({
      j: ["Next row", () => move(1)],
      k: ["Row before", () => move(-1)],
      x: ["Select the row", () => rows[at] && toggle(rows[at].id)],
      X: ["Select all that match", () => { setSelected(new Set(rows.map((job) => job.id))); setAll(true); }],
      o: ["Open the job", () => rows[at] && go(jobLink(rows[at].id))],
      Enter: ["Open the job", () => rows[at] && go(jobLink(rows[at].id))],
      R: ["Retry the selected", () => act("retry")],
      N: ["Run the selected now", () => act("run_now")],
      C: ["Cancel the selected", () => act("cancel")],
      D: ["Delete the selected", () => act("delete")],
      Escape: ["Clear the selection", clear],
    }),
  );
  const allShown = rows.length > 0 && rows.every((job) => selected.has(job.id));
  const facts = { states: Object.fromEntries(Object.entries(totals.value).map(([state, count]) => [state, number(count)])), phases: phases.value.map((one) => [one.name, one.counts.queued ? `${number(one.counts.queued)} queued` : ""]), kinds: kinds.value.map((one) => [one.name, ""]), exceptions: exceptions.value.map(([name, count]) => [name, `${number(count)} failed`]), instances: instances.value.map((one) => [one.id, `${one.host} pid ${one.pid ?? "–"}, ${one.state}`]) };
  return html`
    <div class="head"><h1>Jobs</h1>
      <nav class="tabs bare" aria-label="Views">${[...builtIn(), ...views.value.value.map(({ name, q: text }) => [name, text])].map(([name, text]) => html`<a key=${name} href=${link("/jobs", { q: text })} aria-current=${text === q ? "true" : null} dir="auto">${name}</a>`)}</nav>
      <span class="fill"></span>
      <div class="acts"><button type="button" class="btn plain hide-s" onClick=${() => saveView(q)}>Save view…</button>
        <button type="button" class="btn hide-s" onClick=${() => exportJobs(q)}>Export…</button>
        ${can("submit") && html`<button type="button" class="btn primary" onClick=${() => submitJob(() => kinds.value)}>Submit…</button>`}</div></div>
    <${FilterBar} value=${q} facts=${facts} onChange=${(text) => adjust({ q: text, cursor: null })} hits=${counted.data ? `${capped(counted.data) || 0} match` : ""} problem=${page.problem?.status === 400 || page.problem?.status === 422 ? page.problem.text : null} />
    <section class="panel below" aria-label="Jobs" onMouseEnter=${() => setHovered(true)} onMouseLeave=${() => setHovered(false)}>
      ${newer > 0 && html`<button type="button" class="newer" onClick=${() => { clear(); setFrozen(null); setHovered(false); }}>${newer} newer</button>`}
      <${Loaded} of=${{ ...page, data: page.data && { rows } }} rows=${8}>${() =>
        rows.length === 0
          ? html`<${NoJobs} q=${q} more=${page.data?.next_cursor} searched=${page.data?.searched} />`
          : html`<div class="scroll"><table class="table jobs rows">
            <thead><tr>
              <th class="hide-s"><input type="checkbox" aria-label="Select page" checked=${allShown} onChange=${() => (allShown ? clear() : setSelected(new Set(rows.map((job) => job.id))))} /></th>
              <th>State</th><th class="hide-m">Job</th><th>Name</th><th class="hide-m">Kind</th><th>Phase</th><th>Progress</th><th class="num hide-m">Try</th><th class="num" aria-sort="descending">Age</th><th>What happens next</th></tr></thead>
            <tbody>${rows.map((job, i) => html`<${Row} key=${job.id} job=${job} on=${selected.has(job.id)} at=${i === at} toggle=${toggle} />`)}</tbody></table></div>`}<//>
      <${Pager} next=${page.data?.next_cursor} note=${`${rows.length} rows, newest first`}>
        <span class="hide-s"><kbd>j</kbd> <kbd>k</kbd> move</span><span class="hide-s"><kbd>x</kbd> select</span><//>
    </section>
    ${selected.size > 0 && html`<div class="bulk" role="region" aria-label="Selected jobs">
      <span><b>${all ? `${capped(counted.data)} jobs` : number(selected.size)} selected</b>${all ? ", all that match" : ""}</span>
      ${!all && selected.size < (counted.data?.count ?? 0) && html`<button type="button" class="linklike" onClick=${() => setAll(true)}>select all ${capped(counted.data)} that match</button>`}
      ${can("operate") ? html`<span class="bulk-acts acts">
        <button type="button" class="btn" onClick=${() => act("retry")}>Retry… <kbd>R</kbd></button>
        <button type="button" class="btn" onClick=${() => act("run_now")}>Run now… <kbd>N</kbd></button>
        <button type="button" class="btn" onClick=${() => act("cancel")}>Cancel… <kbd>C</kbd></button>
        ${can("edit") && html`<button type="button" class="btn" onClick=${() => act("delete")}>Delete… <kbd>D</kbd></button>
        <button type="button" class="btn" onClick=${() => act("priority")}>Priority…</button>`}</span>` : html`<span>Acting needs the role operate.</span>`}
      <button type="button" class="btn square" aria-label="Clear the selection" onClick=${clear}><${Icon} name="failed" /></button></div>`}`;
}

function Row({ job, on, at, toggle }) {
  const mark = markOf(job);
  const title = titleOf(job);
  const next = nextOf(job, now.value);
  return html`<tr class=${`${on ? "sel" : ""} ${at ? "at" : ""}`}>
    <td class="hide-s"><input type="checkbox" aria-label=${`Select ${job.id.slice(-6)}`} checked=${on} onChange=${() => toggle(job.id)} /></td>
    <td class="state"><${State} state=${mark} /></td>
    <td class="mono hide-m"><${JobId} id=${job.id} /></td>
    <td class="clip nm full"><a href=${jobLink(job.id)} dir="auto" title=${title}>${title}</a></td>
    <td class="hide-m quiet short" dir="auto" title=${job.kind}>${job.kind}</td>
    <td class="hide-s short" title=${job.phase}><${Steps} phases=${phasesOf(job.kind)} phase=${job.phase} state=${mark} />${labelOf(job.phase)}</td>
    <td class="pg hide-s">${job.progress?.percent !== null && job.progress && html`<${Progress} value=${job.progress.percent} state=${mark} />`}</td>
    <td class="num quiet hide-m">${job.attempt}/${job.max_attempts}</td>
    <td class="num age"><${Age} at=${job.created_at} plain /></td>
    <td class="clip say full" dir="auto" title=${`${next.text}${next.strong ?? ""}${next.mono ?? ""}`}>${next.text}${next.strong && html`<b>${labelOf(next.strong)}</b>`}${next.mono && html`<span class="mono" dir="auto">${next.mono}</span>`}</td>
  </tr>`;
}

function NoJobs({ q, more, searched }) {
  if (more) return html`<${Empty} title="Nothing found so far">${number(searched)} jobs were searched. “Older” goes on from there; a state, a phase or an age makes the search quick.<//>`;
  if (!q) return html`<${Empty} title="No job has been submitted yet." commands=${["windlass submit KIND name=value --wait"]}>Submit one from the shell, from Python with <code>kind.enqueue(…)</code>, or with the button above.<//>`;
  return html`<${Empty} title=${`No job matches ${q}`}>Remove a word of the filter, or <a href=${link("/jobs")}>see all jobs</a>. Arguments are searched in the newest 100 000 jobs only.<//>`;
}

function saveView(q) {
  ask({
    title: "Save this view", label: "Save", keep: "Close", text: html`This browser keeps it: <span class="mono" dir="auto">${q || "all jobs"}</span>. Saving it under the same name replaces it; an empty filter removes it.`,
    fields: [{ name: "name", label: "Name", required: true, maxlength: 40 }],
    act: ({ name }) => views.put([...views.value.peek().filter((one) => one.name !== name), ...(q ? [{ name, q }] : [])]),
  });
}
