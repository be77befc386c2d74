// The board of one pipeline: a card for each phase with a cell for each processor, the queue between cards as a band, and why jobs wait.
import { useEffect, useState } from "preact/hooks";
import { html } from "../lib/html.js";
import { pathOf } from "../lib/api.js";
import { duration, many, milliseconds, number, percent } from "../lib/format.js";
import { adjusted, jobLink, jobsLink, link, query, term } from "../lib/router.js";
import { now } from "../lib/live.js";
import { can } from "../lib/session.js";
import { byPhase, definitions, instances, kinds } from "../lib/facts.js";
import { depths, donePerMinute, newest, stepped, sum, useHistory, useMarks } from "../lib/history.js";
import { pausePhase, resumePhase, scalePhase, submitJob } from "../lib/acts.js";
import { useResource } from "../lib/resource.js";
import { useKeysOf } from "../lib/keys.js";
import { errorText, titleOf } from "../lib/states.js";
import { Panel } from "../components/panel.js";
import { CellKey, Cells, countsOf, processorsOf } from "../components/cells.js";
import { Age, Count, JobId, Middle, Progress, State, Tag } from "../components/marks.js";
import { Empty, Loaded } from "../components/empty.js";
import { Icon } from "../components/icon.js";
import { Spark } from "../components/chart.js";
import { Charts, bottleneck } from "./overview.js";

const MOST_CARDS = 6;

export function Pipeline({ name }) {
  const kind = kinds.value.find((one) => one.name === name);
  const history = useHistory("1h");
  const marks = useMarks(history);
  const [card, setCard] = useState(null);
  const chosen = query.value.get("phase");
  useEffect(() => {
    const close = (event) => event.key === "Escape" && setCard(null);
    addEventListener("keydown", close);
    return () => removeEventListener("keydown", close);
  }, []);
  const focus = chosen ?? kind?.phases[0];
  useEffect(() => useKeysOf(can("operate") && focus ? { P: [`Pause or resume ${focus}`, () => (isPaused(byPhase.value.get(focus)) ? resumePhase(focus) : pausePhase(focus))], "+": ["Processors", () => scalePhase(focus, placesOf(focus))] } : {}));
  if (!kind) return html`<div class="head"><a class="crumb" href=${link("/pipelines")}>Pipelines /</a><h1 dir="auto">${name}</h1></div>${kinds.value.length > 0 && html`<section class="panel"><${Empty} title="There is no pipeline of this name">The application of this server does not define it. <a href=${jobsLink(term("kind", name))}>Its jobs</a> may still be kept.<//></section>`}`;
  const known = kind.phases.map((phase) => ({ name: phase, label: definitions.value.get(phase)?.label ?? phase, counts: {}, busy: 0, processors: 0, oldest: 0, ...byPhase.value.get(phase), defined: definitions.value.get(phase) }));
  const neck = bottleneck(known);
  const long = known.length > MOST_CARDS;
  const opened = long ? (known.find((one) => one.name === chosen) ?? neck ?? known[0]) : null;
  const steps = (phases) => stepped(history, phases);
  const show = (cell, key, element) => {
    const box = element.closest(".board, .strip-card").getBoundingClientRect();
    const own = element.closest(".phase").getBoundingClientRect();
    const right = own.right - box.left + 306 < box.width;
    setCard({ cell, key, left: right ? own.right - box.left + 6 : Math.max(0, own.left - box.left - 306), top: 40 });
  };
  const hosts = new Set(instances.value.filter((one) => one.phases.some((phase) => kind.phases.includes(phase.name))).map((one) => one.host));
  const processors = sum(known.map((one) => one.processors));
  return html`<div class="head"><a class="crumb" href=${link("/pipelines")}>Pipelines /</a><h1 dir="auto">${name}</h1><span class="quiet">${many(known.length, "phase")}, ${many(processors, "processor")} on ${many(hosts.size, "host")}</span><span class="fill"></span>
      <nav class="tabs bare" aria-label="Views"><a href=${link(`/pipelines/${encodeURIComponent(name)}`)} aria-current="true">Board</a><a href=${jobsLink(term("kind", name))}>Jobs</a><a href=${link("/failures", { kind: name })}>Failures</a></nav>
      <div class="acts">${can("submit") && html`<button type="button" class="btn" onClick=${() => submitJob(() => [kind])}>Submit…</button>`}
        ${can("operate") && neck && placesOf(neck.name).length > 0 && html`<button type="button" class="btn primary" onClick=${() => scalePhase(neck.name, placesOf(neck.name))}>Scale ${neck.label}…</button>`}</div></div>
    <div class="stack">
      ${long
        ? html`<ol class="strip">${known.map((one) => html`<${Stop} key=${one.name} phase=${one} neck=${one === neck} open=${one === opened} />`)}</ol>
            <div class="strip-card hover-area" onMouseLeave=${() => setCard(null)}><${Phase} phase=${opened} steps=${steps([opened.name])} neck=${opened === neck} onShow=${show} shown=${card?.key} /><${HoverCard} card=${card} close=${() => setCard(null)} /></div>`
        : html`<div class="hover-area" onMouseLeave=${() => setCard(null)}><div class="board" style=${{ "--board": columns(known) }}>
            ${known.map((one, i) => html`${i > 0 ? html`<${Band} key=${`b${one.name}`} phase=${one} />` : ""}<${Phase} key=${one.name} phase=${one} steps=${steps([one.name])} neck=${one === neck} onShow=${show} shown=${card?.key} />`)}
            <div class="band end"><span class="up"></span><span class="pipe" style=${{ "--d": "3px" }}></span><span class="dn"></span></div>
            <${Outs} kind=${name} steps=${steps(kind.phases)} /></div><${HoverCard} card=${card} close=${() => setCard(null)} /></div>`}
      <${CellKey} />
      <${Why} known=${known} kind=${name} />
      <${Charts} steps=${steps(long && opened ? [opened.name] : kind.phases)} range="1h" marks=${marks} names=${long && opened ? [opened.name] : kind.phases} />
      <div class="cols"><${Running} kind=${name} /><${Failed} kind=${name} /></div>
    </div>`;
}

const isPaused = (one) => Boolean(one?.is_paused ?? one?.pause);
const placesOf = (phase) => instances.value.filter((one) => one.state === "running").flatMap((one) => one.phases.filter((other) => other.name === phase).map((other) => ({ id: one.id, host: one.host, pid: one.pid, size: other.size })));

// A card is as wide as its cells need; bands share what is left.
function columns(known) {
  const widths = known.map((one) => `minmax(148px, ${Math.max(2, Math.min(9, Math.ceil(Math.sqrt(one.processors || 1) * 1.8)))}fr)`);
  return `${widths.join(" minmax(58px, 2fr) ")} minmax(24px, 1fr) 148px`;
}

function Phase({ phase, steps, neck, onShow, shown }) {
  const cells = processorsOf(phase.name, instances.value, now.value).map((cell) => ({ ...cell, limit: cell.limit ?? phase.defined?.timeout ?? null }));
  const held = cells.filter((cell) => cell.state === "blocked").length;
  const paused = isPaused(phase);
  const failed = sum(steps.failed);
  const places = placesOf(phase.name);
  const jobs = (state) => jobsLink(`state:${state}`, term("phase", phase.name));
  return html`<article class="phase ${neck ? "neck" : ""}" aria-label=${`Phase ${phase.label}`}>
    <header><h2 dir="auto" title=${phase.name}><a href=${jobsLink(term("phase", phase.name), "-state:completed")}>${phase.label}</a></h2><span class="quiet">${number(phase.processors)}</span><span class="fill"></span>
      ${neck && html`<${Tag} state="warn" icon="warn">bottleneck<//>`}${paused && html`<${Tag} state="paused" icon="paused">paused<//>`}
      ${can("operate") && html`<button type="button" class="btn plain small square" title=${`${paused ? "Resume" : "Pause"} ${phase.label}…`} aria-label=${`${paused ? "Resume" : "Pause"} ${phase.label}`} onClick=${() => (paused ? resumePhase(phase.name) : pausePhase(phase.name))}><${Icon} name=${paused ? "processing" : "paused"} /></button>
        ${places.length > 0 && html`<button type="button" class="btn plain small square" title=${`Processors of ${phase.label}…`} aria-label=${`Processors of ${phase.label}`} onClick=${() => scalePhase(phase.name, places)}><${Icon} name="scale" /></button>`}`}</header>
    ${cells.length ? html`<${Cells} cells=${cells} onShow=${onShow} shown=${shown} />` : html`<p class="cells quiet">${phase.instances === 0 ? "no living instance serves it" : "no processors"}</p>`}
    <dl><dt>Busy</dt><dd>${phase.processors ? html`<a href=${jobs("processing")}>${percent(phase.busy / phase.processors)}</a>` : "–"}${held ? html` <small data-s="warn" class="tint">${held} held</small>` : ""}</dd>
      <dt>Queued</dt><dd><${Count} value=${phase.counts.queued ?? 0} to=${jobs("queued")} />${phase.defined?.max_waiting ? html` <small>of ${number(phase.defined.max_waiting)}</small>` : ""}</dd>
      <dt>Oldest</dt><dd>${phase.counts.queued ? html`<a href=${jobs("queued")}>${duration(phase.oldest)}</a>` : "–"}</dd>
      <dt>Run p95</dt><dd><a href=${jobs("completed")}>${milliseconds(newest(steps.run_p95))}</a></dd><dt>Wait p95</dt><dd><a href=${jobs("queued,processing")}>${milliseconds(newest(steps.wait_p95))}</a></dd>
      <dt>Failed 1h</dt><dd><${Count} value=${failed} to=${jobs("failed")} loud="failed" /></dd>
      <dt>Done/min</dt><dd><b><${Count} value=${donePerMinute(steps, phase.per_second ?? 0)} to=${jobs("completed")} /></b></dd>
      <dt class="wide">Queue, since opened</dt><dd class="wide"><${Spark} values=${depths.value.map((one) => one.queued.get(phase.name) ?? 0)} state="queued" label="queued" /></dd></dl>
  </article>`;
}

function Band({ phase }) {
  const queued = phase.counts.queued ?? 0;
  const most = phase.defined?.max_waiting;
  const share = most ? queued / most : 0;
  return html`<a class="band" href=${jobsLink("state:queued", term("phase", phase.name))} data-s=${share > 0.85 ? "failed" : share > 0.6 ? "warn" : ""} title=${`${number(queued)} queued for ${phase.label}`}>
    <span class="up"><b>${number(queued)}</b>${most ? html`${" "}<br /><small>of ${number(most)}</small>` : ""}</span><span class="pipe" style=${{ "--d": `${thickness(queued)}px` }}></span><span class="dn">${queued ? html`oldest${" "}<br />${phase.oldest > 60 ? html`<b>${duration(phase.oldest)}</b>` : duration(phase.oldest)}` : ""}</span></a>`;
}

const thickness = (queued) => Math.round(Math.min(34, 3 + 31 * (Math.log10(1 + queued) / 4)));

function Stop({ phase, neck, open }) {
  const cells = processorsOf(phase.name, instances.value, now.value);
  return html`<li class=${`${neck ? "neck" : ""} ${open ? "open" : ""}`} style=${{ "--d": `${thickness(phase.counts.queued ?? 0)}px` }}><a href=${adjusted({ phase: phase.name })} aria-current=${open ? "true" : null}><b dir="auto" title=${phase.name}>${phase.label}</b>
    <span class="share">${countsOf(cells).map(([state, count]) => html`<i key=${state} data-s=${state} style=${{ "--w": count }}></i>`)}</span>
    <span class="r"><span>${number(phase.processors)}</span><span>${phase.processors ? percent(phase.busy / phase.processors) : "–"}</span></span><span class="r quiet"><span>queue</span><span>${number(phase.counts.queued ?? 0)}</span></span></a></li>`;
}

function HoverCard({ card, close }) {
  const job = useResource(card?.cell.job ? `/v1/jobs/${encodeURIComponent(card.cell.job)}` : null, { every: 2, keep: true });
  if (!card) return null;
  const { cell } = card;
  const found = job.data?.id === cell.job ? job.data : null;
  return html`<div class="pop card" role="group" aria-label=${cell.name} style=${{ left: `${card.left}px`, top: `${card.top}px` }}>
    <h3><span dir="auto">${cell.name}</span><span class="quiet plain">${cell.host} · pid ${cell.pid}</span></h3>
    ${found ? html`<p class="cut"><a href=${jobLink(found.id)} dir="auto">${titleOf(found)}</a></p>` : html`<p class="quiet">${cell.state}</p>`}
    <dl class="facts">${cell.used !== undefined && cell.used !== null && html`<dt>Time used</dt><dd>${cell.limit ? html`<${Progress} value=${(100 * cell.used) / cell.limit} state="processing" />` : duration(cell.used)}</dd>`}
      ${found?.progress && html`<dt>Progress</dt><dd>${number(found.progress.done)}${found.progress.total ? html` <small>of ${number(found.progress.total)}</small>` : ""}</dd>`}
      ${found && html`<dt>Attempt</dt><dd>${found.attempt} of ${found.max_attempts}</dd>`}</dl>
    <div class="acts">${cell.job && html`<a class="btn small" href=${jobLink(cell.job)}>Open job</a>`}<a class="btn small" href=${link("/processors", { instance: cell.instance })}>Instance</a><button type="button" class="btn small plain" onClick=${close}>Close</button></div></div>`;
}

function Outs({ kind, steps }) {
  const rows = [["completed", sum(steps.completed)], ["failed", sum(steps.failed)], ["retry", sum(steps.retried)], ["cancelled", sum(steps.cancelled)]];
  return html`<div class="outs"><p class="quiet">Last hour</p>${rows.map(([state, count]) => html`<a key=${state} href=${jobsLink(state === "retry" ? "attempt:>1" : `state:${state}`, term("kind", kind))} data-s=${state}><${Icon} name=${state} />${state === "retry" ? "retried" : state}<b>${number(count)}</b></a>`)}</div>`;
}

function Why({ known, kind }) {
  const reasons = [];
  const add = (state, icon, count, text, to) => count > 0 && reasons.push({ state, icon, count, text, to });
  for (const one of known) add(isPaused(one) ? "paused" : one.instances === 0 ? "failed" : "queued", isPaused(one) ? "paused" : one.instances === 0 ? "warn" : "queued", one.counts.queued, isPaused(one) ? `because ${one.label} is paused${one.pause?.reason ? `: ${one.pause.reason}` : ""}` : one.instances === 0 ? `because no instance serves ${one.label}` : one.waits?.startsWith("held") ? `${one.label}: ${one.waits}` : `for a processor of ${one.label}`, jobsLink("state:queued", term("phase", one.name)));
  add("scheduled", "retry", sum(known.map((one) => one.counts.scheduled)), "for their time or their next attempt", jobsLink("state:scheduled", term("kind", kind)));
  add("waiting", "waiting", sum(known.map((one) => one.counts.waiting)), "for another job or a limit", jobsLink("state:waiting", term("kind", kind)));
  const total = sum(reasons.map((one) => one.count));
  if (!total) return html`<section class="panel"><p class="pad quiet">No job of this pipeline waits.</p></section>`;
  return html`<section class="panel why" aria-labelledby="why"><h2 id="why">Why ${many(total, "job")} ${total === 1 ? "waits" : "wait"}</h2><div class="split" aria-hidden="true">${reasons.map((one) => html`<i key=${one.text} data-s=${one.state} style=${{ "--w": one.count }}></i>`)}</div>
    <ul>${reasons.map((one) => html`<li key=${one.text} data-s=${one.state}><${Icon} name=${one.icon} /><a href=${one.to} dir="auto"><b>${number(one.count)}</b> ${one.text}</a></li>`)}</ul></section>`;
}

function Running({ kind }) {
  const found = useResource(pathOf("/v1/jobs", { q: `state:processing ${term("kind", kind)}`, limit: 30 }), { every: 3, keep: true });
  return html`<${Panel} span=${6} title="Longest running now" aside=${html`<a class="quiet" href=${jobsLink("state:processing", term("kind", kind))}>All</a>`}><${Loaded} of=${found}>${({ jobs }) =>
    jobs.length
      ? html`<table class="table"><tbody>${[...jobs].sort((a, b) => (a.claimed_at ?? "").localeCompare(b.claimed_at ?? "")).slice(0, 5).map((job) => html`<tr key=${job.id}><td class="mono"><${JobId} id=${job.id} /></td><td class="clip nm wide"><${Middle} text=${titleOf(job)} /></td><td class="pg">${job.progress?.percent !== null && job.progress && html`<${Progress} value=${job.progress.percent} state="processing" />`}</td><td class="num"><${Age} at=${job.started_at ?? job.claimed_at} plain /></td><td class="num quiet">${job.attempt}/${job.max_attempts}</td></tr>`)}</tbody></table>`
      : html`<p class="pad quiet">Nothing runs.</p>`}<//><//>`;
}

function Failed({ kind }) {
  const found = useResource(pathOf("/v1/jobs", { q: `state:failed ${term("kind", kind)}`, limit: 5 }), { every: 5, keep: true });
  return html`<${Panel} span=${6} title="Failed lately" aside=${html`<a class="quiet" href=${link("/failures", { kind })}>Grouped</a>`}><${Loaded} of=${found}>${({ jobs }) =>
    jobs.length
      ? html`<table class="table"><tbody>${jobs.map((job) => html`<tr key=${job.id}><td class="mono"><${JobId} id=${job.id} /></td><td class="clip nm"><${Middle} text=${titleOf(job)} /></td><td class="mono clip errs" dir="auto" title=${errorText(job.error)}>${errorText(job.error)}</td><td class="num"><${Age} at=${job.finished_at} plain /></td></tr>`)}</tbody></table>`
      : html`<p class="pad"><${State} state="completed" text="Nothing failed" /></p>`}<//><//>`;
}
