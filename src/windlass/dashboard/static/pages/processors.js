// Instances with the processors of their phases: by instance or by phase, and acts on them.
import { html } from "../lib/html.js";
import { useResource } from "../lib/resource.js";
import { duration, many, number, shortId } from "../lib/format.js";
import { adjusted, jobLink, jobsLink, link, query, term } from "../lib/router.js";
import { can } from "../lib/session.js";
import { now } from "../lib/live.js";
import { definitions, instances, overview, phases } from "../lib/facts.js";
import { drainInstance, scalePhase } from "../lib/acts.js";
import { Head, Panel, Segments } from "../components/panel.js";
import { CellKey, Cells, processorsOf } from "../components/cells.js";
import { Age, State, Tag } from "../components/marks.js";
import { Empty } from "../components/empty.js";
import { Icon } from "../components/icon.js";
import { Phases } from "./pipelines.js";

const MARK = { running: "processing", starting: "waiting", stopping: "draining", stopped: "cancelled", lost: "lost", dead: "cancelled" };
const isUp = (one) => one.state !== "dead" && one.state !== "stopped";

export function Processors() {
  const wanted = query.value.get("instance");
  const byPhase = query.value.get("by") === "phase";
  const all = query.value.get("all") === "1";
  const counter = query.value.get("counter");
  const list = instances.value.filter((one) => (wanted ? one.id === wanted : all || isUp(one)));
  const gone = instances.value.filter((one) => !isUp(one)).length;
  const size = phases.value.reduce((total, one) => total + one.processors, 0);
  const served = phases.value.filter((one) => one.processors);
  return html`<${Head} title="Processors" note=${overview.value ? `${many(size, "processor")} on ${many(instances.value.filter((one) => one.state === "running").length, "running instance")}` : ""}><span class="fill"></span>
      ${wanted && html`<a class="btn small" href=${link("/processors")}>All instances</a>`}<${Segments} label="Show" value=${byPhase ? "phase" : "instance"} options=${[["instance", "by instance"], ["phase", "by phase"]]} to=${(key) => adjusted({ by: key === "phase" ? "phase" : null })} /><//>
    <div class="stack">
      ${overview.value && list.length === 0 && html`<section class="panel"><${Empty} title=${wanted ? "This instance is no longer known" : "No instance runs"} commands=${["windlass worker app.py"]}>Jobs wait until a worker that serves their phases starts.<//></section>`}
      ${byPhase ? html`<${Panel} label="Phases"><${Phases} list=${phases.value} /><//>${served.slice(0, 60).map((one) => html`<${Panel} key=${one.name} title=${one.name} note=${said(one.name)}><${Cells} cells=${processorsOf(one.name, instances.value, now.value).map((cell) => ({ ...cell, limit: definitions.value.get(one.name)?.timeout ?? null }))} /><//>`)}` : list.map((one) => html`<${Instance} key=${one.id} one=${one} whole=${wanted === one.id} counter=${counter} />`)}
      ${!byPhase && !wanted && gone > 0 && html`<p><a class="quiet" href=${adjusted({ all: all ? null : "1" })}>${all ? "Hide" : "Show"} ${many(gone, "instance")} that stopped or died</a></p>`}
      <${CellKey} /></div>`;
}

// How many processors of a phase do what, on all instances.
function said(name) {
  const on = instances.value.filter((one) => one.state === "running").flatMap((one) => one.phases.filter((phase) => phase.name === name));
  const of = (key) => on.reduce((total, phase) => total + (phase[key] ?? 0), 0);
  return `${number(of("size") - of("busy") - of("error"))} idle, ${number(of("busy"))} busy, ${number(of("error"))} in error`;
}

function Instance({ one, whole, counter }) {
  const late = (now.value - Date.parse(one.heartbeat_at)) / 1000;
  return html`<section class="panel" aria-label=${`Instance ${one.host} ${one.pid}`}>
    <header><h2 dir="auto"><a href=${link("/processors", { instance: one.id })}>${one.host}</a></h2><span class="quiet">pid ${one.pid ?? "–"}</span><span class="quiet mono hide-s" title=${one.id}>${shortId(one.id)}</span>${one.version && html`<span class="quiet short hide-s" dir="auto" title=${`version ${one.version}`}>${one.version}</span>`}<${State} state=${MARK[one.state] ?? one.state} text=${one.state} fill=${one.state === "lost"} />
      ${counter && html`<${Tag}>${counter.replaceAll("_", " ")}: ${number(one.counters?.[counter] ?? 0)}<//>`}
      <span class="fill"></span><span class="quiet hide-s">up ${duration((now.value - Date.parse(one.started_at)) / 1000)}, heartbeat ${duration(late)} ago</span>
      ${can("operate") && one.state === "running" && html`<button type="button" class="btn small" onClick=${() => drainInstance(one)}>Drain…</button>`}</header>
    ${one.state === "running" && one.degraded?.length > 0 && html`<ul class="needs">${one.degraded.map((part) => html`<li key=${part.part} data-s=${part.state === "down" ? "failed" : "warn"}><${Icon} name="warn" /><div><span class="t" dir="auto">${part.part} is ${part.state}</span><span class="say" dir="auto">${[part.seen, part.advice].filter(Boolean).join(". ")}</span></div></li>`)}</ul>`}
    <div class="pools">${one.phases.map((phase) => html`<div key=${phase.name} class="poolrow"><p class="cut"><b dir="auto" title=${phase.name}>${phase.name}</b> <span class="quiet"><a href=${jobsLink("state:processing", term("phase", phase.name), term("instance", one.id))}>${number(phase.busy)}</a> of ${number(phase.size)} busy${phase.queue ? `, ${number(phase.queue)} in memory` : ""}${phase.held_by ? `, held by ${phase.held_by}` : ""}</span>
        ${can("operate") && one.state === "running" && html`<button type="button" class="btn plain small" onClick=${() => scalePhase(phase.name, [{ id: one.id, host: one.host, pid: one.pid, size: phase.size }])}>change…<span class="sr"> processors of ${phase.name}</span></button>`}</p>
      <${Cells} cells=${processorsOf(phase.name, [one], now.value).map((cell) => ({ ...cell, limit: definitions.value.get(phase.name)?.timeout ?? null }))} /></div>`)}</div>
    ${whole && html`<${Details} one=${one} />`}</section>`;
}

function Details({ one }) {
  const requests = useResource(`/v1/instances/${encodeURIComponent(one.id)}/requests`, { every: 3, keep: true });
  return html`<div class="pad"><h2>Running</h2>${one.running.length ? html`<table class="table tight"><tbody>${one.running.map((item) => html`<tr key=${item.name}><td dir="auto">${item.name}</td><td>${item.state}</td><td class="mono">${item.job ? html`<a href=${jobLink(item.job)}>${shortId(item.job)}</a>` : ""}</td><td class="num">${item.since ? html`<${Age} at=${item.since} plain />` : ""}</td></tr>`)}</tbody></table>` : html`<p class="quiet">Nothing.</p>`}
    ${requests.data?.requests.length > 0 && html`<h2>Asked of it</h2><table class="table tight"><tbody>${requests.data.requests.map((item) => html`<tr key=${item.id}><td><${Age} at=${item.at} /></td><td dir="auto"><b>${item.actor}</b> ${item.act} ${item.phase ?? ""} ${item.number ?? ""}</td><td>${item.state}</td><td class="clip nm" dir="auto">${item.outcome ?? item.reason}</td></tr>`)}</tbody></table>`}</div>`;
}
