// The first screen: six numbers, what needs a person, three charts, and all pipelines with a mark for each processor.
import { html } from "../lib/html.js";
import { useResource } from "../lib/resource.js";
import { duration, full, many, milliseconds, number, percent, schedule, shortTime } from "../lib/format.js";
import { jobsLink, link, term } from "../lib/router.js";
import { now } from "../lib/live.js";
import { can, seesAll } from "../lib/session.js";
import { byPhase, kinds, labelOf, overview, phases, totals } from "../lib/facts.js";
import { RANGES, behind, depths, donePerMinute, growth, lastWhole, newest, stepped, sum, useHistory, useMarks } from "../lib/history.js";
import { needs } from "../lib/needs.js";
import { bulk, resumePhase, submitJob } from "../lib/acts.js";
import { Head, Panel, Segments } from "../components/panel.js";
import { Chart, Spark } from "../components/chart.js";
import { Mini, processorsOf } from "../components/cells.js";
import { Age, Count, State, Tag } from "../components/marks.js";
import { Empty, Loaded } from "../components/empty.js";
import { Icon } from "../components/icon.js";

const MOST_NEEDS = 8;
const EXAMINED = 120; // seconds between two examinations of the doctor

export function Overview({ range }) {
  if (seesAll.value) return html`<${Whole} range=${range} />`;
  return html`<${Head} title="Overview" /><section class="panel"><${Empty} title="You see your own jobs">This account sees <a href=${link("/jobs")}>a part of all jobs</a>, so the numbers of all phases are not shown.<//></section>`;
}

function Whole({ range }) {
  const history = useHistory(range);
  const failures = useResource("/v1/failures", { every: 10, keep: true });
  const schedules = useResource("/v1/schedules", { every: 15, keep: true });
  const audit = useResource("/v1/audit?limit=5", { every: 15, keep: true });
  const doctor = useResource(can("admin") ? "/v1/doctor" : null, { every: EXAMINED, keep: true });
  const whole = overview.value;
  const marks = useMarks(history);
  const steps = stepped(history);
  const never = whole && sum(Object.values(totals.value)) === 0;
  const chosen = RANGES[range] ? range : "1h";
  const list = (calm) => html`<${Needs} whole=${whole} failures=${failures} schedules=${schedules.data?.schedules} findings=${doctor.data?.findings} calm=${calm} />`;
  if (never) return html`<${Head} title="Overview" /><div class="stack">${list(false)}<section class="panel"><${Welcome} whole=${whole} /></section></div>`;
  return html`<${Head} title="Overview" note=${html`<span class="hide-s" title=${full(now.value)}>${shortTime(now.value, now.value)}</span>`}><span class="fill"></span><${Segments} label="Range" value=${chosen} options=${Object.keys(RANGES).map((key) => [key, key])} to=${(key) => link("/", { range: key === "1h" ? null : key })} /><//>
    <div class="stack">
      <${Strip} whole=${whole} steps=${steps} range=${chosen} />
      ${list(true)}
      <${Charts} steps=${steps} range=${chosen} marks=${marks} />
      <${Lines} steps=${history} />
      <div class="cols">
        <${Panel} span=${6} title="Next from schedules" aside=${html`<a class="quiet" href=${link("/schedules")}>All ${schedules.data?.schedules.length ?? ""}</a>`}>
          <${Loaded} of=${schedules}>${(found) => html`<${Coming} schedules=${found.schedules} />`}<//><//>
        <${Panel} span=${6} title="Done by people" aside=${html`<a class="quiet" href=${link("/audit")}>Audit</a>`}>
          <${Loaded} of=${audit}>${(found) => (found.records.length ? html`<ol class="log">${found.records.map((one) => html`<${Line} key=${one.id ?? one.at} one=${one} />`)}</ol>` : html`<p class="pad quiet">Nobody has acted yet.</p>`)}<//><//>
      </div></div>`;
}

export function Line({ one }) {
  return html`<li><time datetime=${one.at} title=${full(one.at)}>${shortTime(one.at, now.value)}</time><span class="cut" dir="auto"><b>${one.actor}</b> ${one.act.replaceAll(/[._]/g, " ")} <span class="quiet mono">${one.target === "job" || one.target === "operation" || one.target === "instance" ? `…${String(one.name).slice(-6)}` : one.name}</span>${one.reason && html` <q>${one.reason}</q>`}</span></li>`;
}

function Welcome({ whole }) {
  const size = sum(whole.phases.map((one) => one.processors));
  const first = kinds.value[0]?.name ?? "KIND";
  return html`<${Empty} title="Windlass is up. No job has been submitted yet." commands=${[`windlass submit ${first} name=value --wait`]}>${size ? `${many(whole.phases.length, "phase")} with ${many(size, "processor")} ${size === 1 ? "is" : "are"} idle. ` : "No worker runs yet. "}Submit one from the shell, from Python, or with a form:<//>
    ${can("submit") && kinds.value.length > 0 && html`<p class="pad"><button type="button" class="btn primary" onClick=${() => submitJob(() => kinds.value)}>Submit ${first}…</button></p>`}`;
}

function Strip({ whole, steps, range }) {
  const sums = totals.value;
  const size = sum(phases.value.map((one) => one.processors));
  const busy = sum(phases.value.map((one) => one.busy));
  const oldest = phases.value.reduce((worst, one) => (one.oldest > (worst?.oldest ?? 0) ? one : worst), null);
  const lost = (whole?.instances ?? []).filter((one) => one.state === "lost").length;
  const grows = growth(phases.value.map((one) => one.name));
  const late = behind(phases.value).map((one) => one.name);
  const live = sum(phases.value.map((one) => one.per_second ?? 0));
  const failed = sum(steps.failed);
  const queue = depths.value.map((one) => sum([...one.queued.values()]));
  const done = steps.completed.slice(0, -1);
  return html`<section class="panel stats" aria-label="Now">
    <${Stat} name="Queued" to=${jobsLink("state:queued")} value=${whole && number(sums.queued)} spark=${html`<${Spark} values=${queue} state="queued" label="queued since this page was opened" />`}
      say=${late.length ? html`<span data-s="warn"><b>+${number(Math.round(growth(late)))}/min</b></span> in ${late.length > 1 ? many(late.length, "phase") : html`<span dir="auto">${labelOf(late[0])}</span>`}` : !grows || grows > -1 || sums.queued <= size ? "ready to run" : html`${number(Math.round(grows))}/min, empty in about ${duration((sums.queued / -grows) * 60)}`} />
    <${Stat} name="Processing" to=${jobsLink("state:processing")} value=${whole && html`${number(busy)} <small>of ${number(size)}</small>`} spark=${null} say=${size ? `${percent(busy / size)} of processors busy` : "no processors"} />
    <${Stat} name="Completed" to=${jobsLink("state:completed")} value=${html`${number(donePerMinute(steps, live))} <small>/min</small>`} spark=${html`<${Spark} values=${done} state="completed" label="completed" />`} say=${`${number(sum(steps.completed))} in ${range}`} />
    <${Stat} name=${`Failed, ${range}`} to=${link("/failures")} value=${number(failed)} spark=${html`<${Spark} values=${steps.failed.slice(-40)} state="failed" bars label="failed" />`} say=${html`${failed ? html`<span data-s="failed"><b>${number(lastWhole(steps.failed))}</b></span> in the last ${range === "1h" ? "minute" : "step"}, ` : ""}${number(sums.failed)} kept`} />
    <${Stat} name="Oldest waiting" to=${jobsLink("state:queued")} value=${oldest ? duration(oldest.oldest) : "–"} spark=${null} say=${oldest ? html`in <span dir="auto">${oldest.name}</span>` : "nothing waits"} />
    <${Stat} name="Processors" to=${link("/processors")} value=${whole && number(size)} spark=${null} say=${lost ? html`<span data-s="lost"><b>${lost} lost</b></span>, ${many(whole.instances.filter((one) => one.state === "running").length, "instance")} up` : whole ? `${many(whole.instances.filter((one) => one.state === "running").length, "instance")} up` : ""} />
  </section>`;
}

function Stat({ name, to, value, say, spark }) {
  return html`<a class="stat ${spark ? "" : "plain"}" href=${to}><span class="l">${name}</span><span class="n">${value ?? "–"}</span>${spark}<span class="d">${say}</span></a>`;
}

// With `calm` an empty list says that all is well.
function Needs({ whole, failures, schedules, findings, calm }) {
  if (!whole) return null;
  const found = needs({ overview: whole, groups: failures.data?.groups, schedules, findings, now: now.value, growths: (name) => growth([name]) });
  if (!found.length) return calm && html`<section class="panel calm" aria-label="Needs you"><p class="pad" data-s="completed"><span class="pill" data-s="completed"><${Icon} name="completed" />All is well</span> <span class="quiet">nothing failed in the last hour, every queue is served, no instance is lost or degraded</span></p></section>`;
  return html`<${Panel} title="Needs you" note=${many(found.length, "thing")} aside=${html`<a class="quiet" href=${link("/system")}>All checks</a>`}>
    <ul class="needs">${found.slice(0, MOST_NEEDS).map((one) => html`<${Need} key=${one.key} one=${one} />`)}</ul>
    ${found.length > MOST_NEEDS && html`<p class="pad quiet">and ${found.length - MOST_NEEDS} more</p>`}<//>`;
}

export function Need({ one }) {
  return html`<li data-s=${one.state}><${Icon} name=${one.icon} /><div><span class="t" dir="auto">${one.text}</span><span class="say" dir="auto">${one.say}</span></div>
    <div class="acts">${one.acts.map((act) => (act.to ? html`<a key=${act.text} class="btn small" href=${act.to}>${act.text}</a>` : can("operate") && html`<button key=${act.text} type="button" class="btn small" onClick=${() => (act.bulk ? bulk(...act.bulk) : resumePhase(act.resume))}>${act.text}</button>`))}</div></li>`;
}

export function Charts({ steps, range, marks, names = null }) {
  const rate = (values) => values.map((value) => value * steps.perMinute);
  const hours = range === "1h" ? "jobs/min" : "jobs/min, mean";
  const chosen = names ?? phases.value.map((one) => one.name);
  const points = depths.value;
  const waited = (one) => sum(points.map(({ queued }) => queued.get(one.name)));
  const worst = [...phases.value].filter((one) => chosen.includes(one.name)).sort((a, b) => waited(b) - waited(a))[0];
  const of = (one) => one.queued.get(worst?.name) ?? 0;
  const all = (one) => chosen.reduce((total, name) => total + (one.queued.get(name) ?? 0), 0);
  const grows = growth(chosen);
  const depth = points.length ? all(points.at(-1)) : 0;
  const known = phases.value.filter((one) => chosen.includes(one.name));
  const late = behind(known).map((one) => one.name);
  const drain = late.length ? html`<${Tag} state="warn">+${number(Math.round(growth(late)))}/min<//>` : grows !== null && grows < -1 && depth > sum(known.map((one) => one.processors)) ? html`<span class="quiet">empty in ${duration((depth / -grows) * 60)}</span>` : null;
  const latency = [steps.wait_p95, steps.run_p95, steps.wait_p50, steps.run_p50].map((values) => values.map((value) => (value === null ? null : Math.max(value, 1))));
  return html`<div class="cols">
    <${Chart} span=${4} title="Throughput" note=${hours} open marks=${marks} data=${[steps.at, rate(steps.completed), rate(steps.failed)]} format=${(value) => number(value ?? 0)} series=${[{ label: "completed", state: "completed", kind: "area" }, { label: "failed", state: "failed", kind: "bars", right: true }]} />
    <${Chart} span=${4} title="Latency" note="log scale, p95; thin line p50" open marks=${marks} log data=${[steps.at, ...latency]} format=${milliseconds} series=${[{ label: "wait", state: "queued" }, { label: "run", state: "processing" }, { state: "queued", thin: true }, { state: "processing", thin: true }]} empty="No job ended in this time." />
    <${Chart} span=${4} title="Backlog" note="since this page was opened" marks=${marks} tag=${drain} data=${[points.map((one) => one.at / 1000), points.map(all), points.map(of)]} format=${(value) => number(value ?? 0)} series=${[{ label: worst && chosen.length > 1 ? "all" : "", state: "waiting", kind: "area", rest: true }, { label: worst ? labelOf(worst.name) : "queued", state: "queued", kind: "area" }]} empty=${depth ? "The first points are drawn in a few seconds." : "Nothing waits."} />
  </div>`;
}

function Lines({ steps }) {
  const hour = (names) => stepped(steps, names);
  return html`<${Panel} title="Pipelines" note=${kinds.value.length || ""} aside=${can("submit") && kinds.value.length > 0 && html`<button type="button" class="btn small plain" onClick=${() => submitJob(() => kinds.value)}>Submit a job…</button>`}><div class="scroll"><table class="table rows lines">
    <thead><tr><th>Pipeline</th><th>Phases, one mark per processor</th><th class="num">Queued</th><th class="num">Done/min</th><th class="num hide-m">Wait p95</th><th class="num hide-m">Run p95</th><th class="num">Failed</th><th>State</th></tr></thead>
    <tbody>${kinds.value.slice(0, 40).map((kind) => html`<${KindRow} key=${kind.name} kind=${kind} steps=${hour(kind.phases)} />`)}</tbody></table></div><//>`;
}

function KindRow({ kind, steps }) {
  const to = link(`/pipelines/${encodeURIComponent(kind.name)}`);
  const known = kind.phases.map((name) => byPhase.value.get(name) ?? { name, counts: {}, processors: 0, busy: 0 });
  const queued = sum(known.map((one) => one.counts?.queued));
  const shown = known.slice(0, 7);
  const jobs = (state) => jobsLink(`state:${state}`, term("kind", kind.name));
  return html`<tr><td><a href=${to} dir="auto"><b>${kind.name}</b></a></td>
    <td class="full flow">${shown.map((one, i) => html`<span key=${one.name} class="hop">${i > 0 && html`<a class=${one.counts?.queued ? "" : "quiet"} href=${jobsLink("state:queued", term("phase", one.name))} title=${`queued for ${one.name}`}>${number(one.counts?.queued ?? 0)}</a> <span class="quiet">→</span> `}<a href=${to} dir="auto">${labelOf(one.name)}</a> <${Mini} cells=${processorsOf(one.name, overview.value?.instances ?? [], now.value)} /></span>`)}${known.length > 7 && html`<a class="quiet" href=${to}>and ${known.length - 7} more</a>`}</td>
    <td class="num" data-w="queued"><${Count} value=${queued} to=${jobs("queued")} /></td>
    <td class="num" data-w="done/min"><${Count} value=${donePerMinute(steps, sum(known.map((one) => one.per_second ?? 0)))} to=${jobs("completed")} /></td>
    <td class="num hide-m"><a href=${jobs("queued,processing")}>${milliseconds(newest(steps.wait_p95))}</a></td><td class="num hide-m"><a href=${jobs("completed")}>${milliseconds(newest(steps.run_p95))}</a></td>
    <td class="num" data-w="failed"><${Count} value=${sum(steps.failed)} to=${jobs("failed")} loud="failed" /></td>
    <td><${KindState} known=${known} /></td></tr>`;
}

export function KindState({ known }) {
  const paused = known.find((one) => one.is_paused);
  if (paused) return html`<${Tag} state="paused" icon="paused">${known.length > 1 ? `${labelOf(paused.name)} paused` : "paused"}<//>`;
  const unserved = known.find((one) => one.counts?.queued && !one.instances);
  if (unserved) return html`<${Tag} state="failed" icon="warn">not served<//>`;
  const neck = bottleneck(known);
  if (neck) return html`<${Tag} state="warn">bottleneck ${labelOf(neck.name)}<//>`;
  const late = behind(known);
  if (late.length) return html`<${Tag} state="warn">falls behind +${number(Math.round(growth(late.map((one) => one.name))))}/min<//>`;
  return html`<span class="quiet">${known.some((one) => one.processors) ? "keeping up" : "no worker"}</span>`;
}

// Downstream past phases that are held back, the first one that is busy and has a queue.
export function bottleneck(known) {
  return known.find((one) => one.processors && one.busy >= one.processors && (one.counts?.queued ?? 0) > one.processors && one.oldest > 5) ?? null;
}

function Coming({ schedules }) {
  const found = schedules.filter((one) => one.next_at).sort((a, b) => (a.next_at < b.next_at ? -1 : 1)).slice(0, 5);
  if (!found.length) return html`<p class="pad quiet">No schedule is due.</p>`;
  return html`<table class="table"><tbody>${found.map((one) => html`<tr key=${one.name}><td class="mono" dir="auto" title=${one.expression}><a href=${link("/schedules")}>${one.name}</a></td><td class="quiet hide-s">${schedule(one.expression)}</td><td class="num"><${Age} at=${one.next_at} /></td><td class="num hide-s">${one.state !== "active" ? html`<${State} state="paused" />` : one.last_at ? html`<span class="quiet">last <${Age} at=${one.last_at} /></span>` : html`<span class="quiet">not yet run</span>`}</td></tr>`)}</tbody></table>`;
}
