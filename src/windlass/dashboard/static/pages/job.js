// One job: how far it is, its life as bars, why it is not running, its error, and everything that is kept of it.
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { pathOf, request } from "../lib/api.js";
import { useResource } from "../lib/resource.js";
import { between, capped, duration, full, number, shortId, shortTime } from "../lib/format.js";
import { adjusted, jobLink, jobsLink, link, query, term } from "../lib/router.js";
import { can } from "../lib/session.js";
import { now } from "../lib/live.js";
import { canCancel, canEdit, canRetry, canRunNow, causeOf, causeTerm, errorText, isOver, markOf, titleOf } from "../lib/states.js";
import { cancelJob, deleteJob, editJob, retryJob, runNow, submitJob } from "../lib/acts.js";
import { changed, watchJob } from "../lib/stream.js";
import { useKeysOf } from "../lib/keys.js";
import { kinds, labelOf, phasesOf } from "../lib/facts.js";
import { Facts, Panel } from "../components/panel.js";
import { Age, CopyButton, State, copy } from "../components/marks.js";
import { Empty, Loaded, Refused } from "../components/empty.js";
import { Timeline } from "../components/timeline.js";
import { Json, Traceback } from "../components/code.js";
import { Graph } from "../components/graph.js";

const at = (id, part = "") => `/v1/jobs/${encodeURIComponent(id)}${part}`;

export function Job({ id }) {
  const job = useResource(at(id), { every: 2, keep: true, again: changed.value });
  const data = job.data?.id === id ? job.data : null;
  const alive = data && !isOver(data.state);
  const stamp = `${data?.updated_at}.${data?.state}.${data?.attempt}`;
  const timeline = useResource(data && at(id, "/timeline"), { keep: true, again: stamp });
  const why = useResource(data && at(id, "/why"), { every: alive ? 3 : 0, keep: true, again: stamp });
  useEffect(() => (document.title = data ? `${titleOf(data)} · Windlass` : "Job · Windlass"), [data?.id, data?.state]);
  useEffect(() => {
    watchJob(id);
    return () => watchJob(null);
  }, [id]);
  const reload = job.reload;
  const acts = data ? actsOf(data, reload) : [];
  useLayoutEffect(() => useKeysOf(Object.fromEntries(acts.filter((one) => one.key).map((one) => [one.key, [one.text.replace("…", ""), one.act]]))));
  if (!data) {
    const gone = job.problem?.status === 404;
    return html`<div class="head"><a class="crumb" href=${link("/jobs")}>Jobs /</a><h1>${gone ? "No such job" : "Job"}</h1></div><section class="panel">
      ${gone ? html`<${Empty} title="This job is no longer kept" commands=${[`windlass audit --job ${id}`]}>It may have been pruned, or deleted, or belong to someone else. Its audit lines stay.<//>` : html`<${Loaded} of=${job} />`}</section>`;
  }
  const mark = markOf(data);
  return html`
    <div class="head"><a class="crumb" href=${link("/jobs")}>Jobs /</a><h1 dir="auto" title=${titleOf(data)}>${titleOf(data)}</h1>
      <${State} state=${mark} big text=${stateText(data, mark)} />
      <span class="mono" title=${id}>…${id.slice(-6)} <${CopyButton} text=${id} label="Copy id" /></span><span class="fill"></span>
      <div class="acts hide-s">${acts.map((one) => html`<${Act} key=${one.text} ...${one} />`)}</div></div>
    <div class="stack">
      ${job.problem && html`<div class="banner in" data-s="warn"><${Refused} problem=${job.problem} /></div>`}
      <${Hero} job=${data} mark=${mark} />
      <div class="cols jobcols"><div class="stack c8 top">
        <${Panel} title="Timeline" note=${`${duration(between(data.created_at, data.finished_at ?? new Date(now.value).toISOString()))}${alive ? " so far" : " in all"}`}
          aside=${html`<span class="keyline hide-s"><span><i class="sw hatch"></i>waiting</span><span data-s="processing"><i class="sw"></i>running</span><span data-s="completed"><i class="sw"></i>completed</span><span data-s="failed"><i class="sw"></i>failed attempt</span></span>`}>
          <${Loaded} of=${timeline}>${(found) => html`<${Timeline} job=${data} attempts=${found.attempts} phases=${phasesOf(data.kind)} now=${now.value} />`}<//><//>
        <${Related} job=${data} stamp=${stamp} />
        <${Tabs} job=${data} attempts=${timeline.data?.attempts ?? []} />
        <div class="cols">
          <${Panel} span=${6} title="Arguments" note=${data.arguments ? "" : "hidden"} aside=${html`<button type="button" class="btn plain small" onClick=${() => copy(JSON.stringify(data.arguments, null, 2))}>Copy</button>`}><${Json} value=${data.arguments} label="Arguments" /><//>
          <${Panel} span=${6} title="Outputs" note=${data.outputs?.length ? `${data.outputs.length} stored` : ""}><${Outputs} job=${data} /><//>
        </div></div>
        <div class="stack c4 top">
          <${Panel} title="What happens next" cls="next"><${Next} job=${data} why=${why} /><//>
          <${Panel} title="Facts"><${JobFacts} job=${data} attempts=${timeline.data?.attempts ?? []} /><//>
          <${Audit} id=${id} stamp=${stamp} />
        </div></div></div>
    ${acts.length > 0 && html`<div class="dock">${acts.slice(0, 3).map((one) => html`<${Act} key=${one.text} ...${one} key2="" />`)}</div>`}`;
}

function stateText(job, mark) {
  if (job.cancel_requested_at && job.state === "processing") return `stopping in ${labelOf(job.phase)}`;
  if (mark === "processing" || mark === "failed") return job.phase === job.kind ? mark : `${mark} in ${labelOf(job.phase)}`;
  return mark === "retry" ? `waits to retry ${labelOf(job.phase)}` : mark;
}

function actsOf(job, reload) {
  const found = [];
  if (can("operate")) {
    if (canRetry(job)) found.push({ text: "Retry…", key: "R", act: () => retryJob(job, reload), primary: job.state === "failed" });
    if (canRunNow(job)) found.push({ text: "Run now…", key: "N", act: () => runNow(job, reload) });
  }
  if (can("edit") && canEdit(job)) found.push({ text: "Edit…", key: "E", act: () => editJob(job, reload) });
  if (can("submit")) found.push({ text: "Submit again…", key: "S", act: () => submitJob(() => kinds.value, job) });
  if (can("operate")) {
    if (canCancel(job)) found.push({ text: "Cancel…", key: "C", act: () => cancelJob(job, reload), danger: true });
    if (can("edit") && canRetry(job)) found.push({ text: "Delete…", key: "D", act: () => deleteJob(job), danger: true });
  }
  return found;
}

function Act({ text, key: _key, act, danger, primary }) {
  return html`<button type="button" class="btn ${danger ? "danger" : ""} ${primary ? "primary" : ""}" onClick=${act}>${text}</button>`;
}

function Hero({ job, mark }) {
  const progress = job.progress;
  if (!progress) return null;
  const known = progress.percent !== null && progress.percent !== undefined;
  const left = isOver(job.state) ? null : progress.seconds_left;
  return html`<section class="panel hero" aria-label="Progress"><div class="pct">${known ? html`${Math.floor(progress.percent)}<small>%</small>` : number(progress.done)}</div>
    <dl class="nums">
      ${left !== null && left !== undefined && html`<div class="eta"><dt>Left</dt><dd><b>about ${duration(left)}</b> <small>done at ${shortTime(now.value + left * 1000, now.value)}</small></dd></div>`}
      <div><dt>Records</dt><dd><b>${number(progress.done)}</b> <small>${progress.total !== null ? `of ${number(progress.total)}` : "done"}</small></dd></div>
      ${progress.rate && html`<div><dt>Rate</dt><dd><b>${number(progress.rate)}</b> <small>records/s</small></dd></div>`}
      ${progress.chunk !== null && progress.chunk !== undefined && html`<div><dt>Next chunk</dt><dd><b>${number(progress.chunk)}</b></dd></div>`}
      ${progress.at && html`<div><dt>Saved</dt><dd><${Age} at=${progress.at} /></dd></div>`}
    </dl>
    ${known && html`<div class="wide"><div class="track tall" data-s=${mark} role="progressbar" aria-valuenow=${Math.floor(progress.percent)} aria-valuemin="0" aria-valuemax="100" aria-label="Progress"><i style=${{ "--v": `${progress.percent}%` }}></i></div></div>`}
  </section>`;
}

function Next({ job, why }) {
  if (why.problem && !why.data) return html`<${Refused} problem=${why.problem} />`;
  if (!why.data) return html`<div class="notice quiet">…</div>`;
  const { sentence, also } = why.data;
  return html`<div class="notice say"><p class="lead" dir="auto">${withLinks(capital(sentence))}</p>
    ${also.map((one) => html`<p key=${one.sentence} dir="auto">${withLinks(capital(one.sentence))}</p>`)}
    ${job.pending > 0 && html`<p><a href=${jobsLink("state:waiting", term("correlation", job.correlation_id))}>Jobs of the same correlation id</a></p>`}</div>`;
}

const ID = /(instance )?\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b/g;

// The ids in a sentence are short links to the jobs and instances that they name.
function withLinks(text) {
  const found = [];
  let last = 0;
  for (const match of text.matchAll(ID)) {
    const [whole, instance = "", id] = match;
    found.push(text.slice(last, match.index), instance, html`<a class="mono" title=${id} href=${instance ? link("/processors", { instance: id }) : jobLink(id)}>${shortId(id)}</a>`);
    last = match.index + whole.length;
  }
  return [...found, text.slice(last)];
}

const capital = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

function JobFacts({ job, attempts }) {
  const running = attempts.findLast((one) => !one.ended_at) ?? attempts.at(-1);
  return html`<${Facts} rows=${[
    ["Kind", html`<a href=${link(`/pipelines/${encodeURIComponent(job.kind)}`)} dir="auto">${job.kind}</a>`],
    ["Phase", html`<a href=${jobsLink(term("phase", job.phase))} dir="auto">${job.phase}</a>`],
    running && ["Processor", html`<span dir="auto">${running.processor ?? "of instance"}</span>${running.instance && html` <a class="quiet mono" href=${link("/processors", { instance: running.instance })} title=${running.instance}>…${running.instance.slice(-6)}</a>`}`],
    ["Attempts", html`${job.attempt} of ${job.max_attempts}${job.generation > 1 ? html` <small>in run ${job.generation}</small>` : ""}${job.crashes ? html` <small>${job.crashes} crashes</small>` : ""}`],
    ["Priority", html`${job.priority} <small>of 0–9</small>`],
    job.run_at && !isOver(job.state) && ["Due", html`<${Age} at=${job.run_at} />`],
    ["Submitted", html`<${Age} at=${job.created_at} />`],
    job.started_at && ["Started", html`<${Age} at=${job.started_at} />`],
    job.finished_at && ["Ended", html`<${Age} at=${job.finished_at} />`],
    job.principal && ["Asked by", html`<a href=${jobsLink(term("principal", job.principal))} dir="auto">${job.principal}</a>`],
    ["Correlation", html`<a class="mono" href=${jobsLink(term("correlation", job.correlation_id))} dir="auto">${job.correlation_id}</a>`],
    job.result !== null && job.result !== undefined && ["Result", html`<span class="mono" dir="auto">${JSON.stringify(job.result).slice(0, 200)}</span>`],
  ]} />`;
}

function Outputs({ job }) {
  const phases = phasesOf(job.kind) ?? [];
  if (!job.outputs?.length && (job.result === null || job.result === undefined)) return html`<p class="pad quiet">${isOver(job.state) ? "No output was stored." : "Stored when a phase is done."}</p>`;
  return html`<div class="outputs" tabindex="0" role="group" aria-label="Outputs">${(job.outputs ?? []).map((one, i) => html`<div key=${i} class="output"><p class="quiet mono" dir="auto">${labelOf(one.phase)}${one.name && one.name !== one.phase ? ` · ${one.name}` : ""}</p><${Json} value=${one.value} label=${`Output of ${one.phase}`} /></div>`)}
    ${job.result !== null && job.result !== undefined && html`<div class="output"><p class="quiet mono">result</p><${Json} value=${job.result} label="Result" /></div>`}
    ${!isOver(job.state) && phases.length > 1 && html`<p class="pad quiet">${phases.slice(phases.indexOf(job.phase)).map((name) => `${name} has not stored its output`).slice(0, 1)}</p>`}</div>`;
}

const TABS = [["error", "Error"], ["logs", "Logs"], ["events", "Attempts"], ["stack", "Stack"], ["raw", "Raw"]];
const mayReadStack = (job) => job.state === "processing" && can("operate") && can("view-payload");

function Tabs({ job, attempts }) {
  const fails = attempts.filter((one) => one.error).length;
  const first = job.error || fails ? "error" : "logs";
  const tabs = TABS.filter(([name]) => name !== "stack" || mayReadStack(job) || query.value.get("tab") === "stack");
  const tab = TABS.some(([name]) => name === query.value.get("tab")) ? query.value.get("tab") : first;
  return html`<section class="panel" id="details">
    <nav class="tabs" aria-label="Details">${tabs.map(([name, text]) => html`<a key=${name} href=${adjusted({ tab: name })} aria-current=${name === tab ? "true" : null}>${text}${name === "error" && fails ? html` <small>${fails}</small>` : name === "events" ? html` <small>${attempts.length}</small>` : ""}</a>`)}</nav>
    ${tab === "error" ? html`<${ErrorTab} job=${job} attempts=${attempts} />` : tab === "logs" ? html`<${Logs} job=${job} />` : tab === "events" ? html`<${Attempts} attempts=${attempts} />` : tab === "stack" ? html`<${Stack} job=${job} />` : html`<${Json} value=${job} label="The job as the API has it" />`}
  </section>`;
}

// The stack of a running handler is read by its instance when a person asks, and not before: each reading is in the audit trail.
function Stack({ job }) {
  const [state, set] = useState({ data: null, problem: null, busy: false });
  const read = async () => {
    set((old) => ({ ...old, busy: true }));
    try {
      set({ data: await request("POST", at(job.id, "/stack"), { body: {} }), problem: null, busy: false });
    } catch (problem) {
      set({ data: null, problem, busy: false });
    }
  };
  const { data, problem, busy } = state;
  return html`<div class="pad ask-stack"><button type="button" class="btn" disabled=${busy || !mayReadStack(job)} onClick=${read}>${busy ? "Its instance is asked…" : data ? "Read it again" : "Read the stack now"}</button>
      <span class="quiet">${data ? html`read <${Age} at=${data.at} />` : job.state === "processing" ? "Shows where the handler is: lines of code, no values. Kept in the audit trail." : "The job does not run now."}</span></div>
    ${problem && html`<${Refused} problem=${problem} />`}${data && html`<div class="calm-trace"><${Traceback} text=${data.text} /></div>`}`;
}

function ErrorTab({ job, attempts }) {
  const failed = attempts.findLast((one) => one.error);
  const error = job.error ?? failed?.error;
  if (!error) return html`<p class="pad quiet">No attempt failed.</p>`;
  return html`<div class="err"><h3 dir="auto">${errorText(error)}</h3>
    <p class="say">${failed && html`Attempt ${failed.attempt} in ${labelOf(failed.phase)}${failed.processor ? ` on ${failed.processor}` : ""}, <${Age} at=${failed.ended_at ?? failed.started_at} />. `}
      ${(error.type || error.code) && html`<${Seen} job=${job} error=${error} />`}</p></div>
    ${job.traceback ? html`<${Traceback} text=${job.traceback} />` : html`<p class="pad quiet">No traceback is kept of it.</p>`}`;
}

// How many jobs have the same error; this job is among them while the error is its own, not that of an earlier attempt.
function Seen({ job, error }) {
  const terms = [isOver(job.state) ? "state:failed" : "", causeTerm(error), term("phase", job.phase)];
  const found = useResource(pathOf("/v1/jobs/count", { q: terms.filter(Boolean).join(" ") }), { every: 30, keep: true });
  const isOnly = found.data?.exact && found.data.count <= (job.error ? 1 : 0);
  return html`<a class="seen" href=${jobsLink(...terms)}>${isOnly ? "Seen in no other job" : `Seen in ${found.data ? capped(found.data) : "…"} ${found.data?.count === 1 ? "job" : "jobs"}`}</a>: ${causeOf(error)} in <span dir="auto">${labelOf(job.phase)}</span>.`;
}

function Logs({ job }) {
  const found = useResource(at(job.id, "/logs"), { every: isOver(job.state) ? 0 : 2, keep: true, again: job.state });
  return html`<${Loaded} of=${found}>${({ attempts }) =>
    attempts.every((one) => one.lines.length === 0)
      ? html`<p class="pad quiet">Its handlers logged nothing. Lines of <code>ctx.log</code> appear here.</p>`
      : html`<div class="loglines mono" role="log" tabindex="0" aria-label="Log lines">${attempts.map((one) => html`<div key=${`${one.phase}${one.attempt}`}><p class="quiet">${one.phase}, attempt ${one.attempt}</p>
          ${one.lines.slice(-500).map((line, i) => html`<p key=${i} class="line"><time title=${full(line.at)}>${shortTime(line.at, now.peek())}</time><span data-s=${LEVEL[line.level.toLowerCase()]}>${line.level.toLowerCase()}</span><span dir="auto">${line.message}</span></p>`)}</div>`)}</div>`}<//>`;
}
const LEVEL = { error: "failed", critical: "failed", warning: "warn" };

function Attempts({ attempts }) {
  if (!attempts.length) return html`<p class="pad quiet">It has not been started.</p>`;
  return html`<div class="scroll"><table class="table"><thead><tr><th>Phase</th><th class="num">Attempt</th><th>Outcome</th><th>Processor</th><th class="num">Ran</th><th class="num">Started</th><th>Error</th></tr></thead>
    <tbody>${attempts.slice(-200).map((one, i) => html`<tr key=${i}><td dir="auto">${one.phase}</td><td class="num">${one.attempt}</td><td><${State} state=${{ retried: "retry", advanced: "completed", recovered: "warn", released: "queued" }[one.outcome] ?? one.outcome} text=${one.outcome} /></td>
      <td class="quiet short" dir="auto">${one.processor ?? ""}</td><td class="num">${duration(one.ran_seconds)}</td><td class="num"><${Age} at=${one.started_at} /></td><td class="mono clip" dir="auto" title=${errorText(one.error)}>${errorText(one.error)}</td></tr>`)}</tbody></table></div>`;
}

function Related({ job, stamp }) {
  const found = useResource(at(job.id, "/related"), { every: isOver(job.state) ? 0 : 10, keep: true, again: stamp });
  const same = useResource(pathOf("/v1/jobs/count", { q: term("correlation", job.correlation_id) }), { every: isOver(job.state) ? 0 : 30, keep: true });
  const groups = found.data?.groups ?? [];
  const others = groups.reduce((total, one) => total + (one.level ? one.count : 0), 0);
  const together = same.data?.count > 1;
  if (!others && !together) return null;
  return html`<${Panel} title="Belongs together" note=${others ? `${number(others)}${found.data.is_cut ? "+" : ""} ${others === 1 ? "job" : "jobs"} around it` : ""} aside=${together && html`<a class="quiet" href=${jobsLink(term("correlation", job.correlation_id))}>${capped(same.data)} of one request</a>`}>
    ${others ? html`<${Graph} job=${job} found=${found.data} />` : html`<p class="pad quiet">No job waits for another. They have the same correlation id.</p>`}<//>`;
}

function Audit({ id, stamp }) {
  const found = useResource(pathOf("/v1/audit", { target: "job", name: id, limit: 5 }), { keep: true, again: stamp });
  const lines = found.data?.records ?? [];
  if (!lines.length) return null;
  return html`<${Panel} title="Audit" aside=${html`<a class="quiet" href=${link("/audit", { name: id, target: "job" })}>All</a>`}>
    <ol class="log">${lines.map((one) => html`<li key=${one.id ?? one.at}><time title=${full(one.at)}>${shortTime(one.at, now.value)}</time><span dir="auto"><b>${one.actor}</b> ${one.act.replace("job.", "").replace("_", " ")} ${one.reason && html`<q>${one.reason}</q>`}</span></li>`)}</ol><//>`;
}

