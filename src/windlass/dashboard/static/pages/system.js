// The system itself: what is wrong and how to cure it, phases, rules and open fan-ins, metrics and settings.
import { html } from "../lib/html.js";
import { useResource } from "../lib/resource.js";
import { bytes, many, number } from "../lib/format.js";
import { adjust, adjusted, jobLink, link, query } from "../lib/router.js";
import { degraded } from "../lib/needs.js";
import { Need } from "./overview.js";
import { can, seesAll } from "../lib/session.js";
import { instances } from "../lib/facts.js";
import { Head, Panel } from "../components/panel.js";
import { Age, Count, State, Tag } from "../components/marks.js";
import { Empty, Loaded } from "../components/empty.js";
import { Icon } from "../components/icon.js";
import { useMetrics } from "../lib/metrics.js";

const MARK = { error: "failed", bad: "failed", problem: "failed", warning: "warn", info: "waiting", ok: "completed", good: "completed" };

export function System() {
  const health = useResource("/healthz", { every: 10, keep: true });
  const doctor = useResource(can("admin") ? "/v1/doctor" : null, { keep: true });
  const settings = useResource(can("admin") ? "/v1/settings" : null, { keep: true });
  const rules = useResource("/v1/rules", { every: 60, keep: true });
  const fanIns = useResource("/v1/fan-ins?limit=50", { every: 30, keep: true });
  const tables = useResource(can("admin") ? "/v1/tables" : null, { keep: true });
  const all = query.value.get("all") === "1";
  const parts = degraded(instances.value);
  return html`<${Head} title="System" note=${health.data ? (health.data.status === "ok" ? "healthy" : "degraded") : ""} />
    <div class="stack"><div class="cols">
      <${Panel} span=${6} title="Health"><${Loaded} of=${health}>${(found) => html`<ul class="needs"><li data-s=${found.store === "ok" ? "completed" : "failed"}><${Icon} name=${found.store === "ok" ? "completed" : "failed"} /><div><span class="t">Database</span> <span class="say">${found.store}</span></div><span></span></li>
        ${parts.map((one) => html`<${Need} key=${one.key} one=${one} />`)}
        ${others(found.problems).map((text) => html`<li key=${text} data-s="warn"><${Icon} name="warn" /><div class="say" dir="auto">${text}</div><span></span></li>`)}
        ${found.problems.length === 0 && parts.length === 0 && html`<li data-s="completed"><${Icon} name="completed" /><div class="say">Every phase with jobs is served, and no instance is lost or degraded.</div><span></span></li>`}</ul>`}<//><//>
      <${Panel} span=${6} title="Doctor" aside=${can("admin") && html`<button type="button" class="btn small" onClick=${doctor.reload}>Examine again</button>`}>${
        can("admin")
          ? html`<${Loaded} of=${doctor}>${(found) => (found.findings.length ? html`<ul class="needs">${found.findings.map((one) => html`<li key=${one.code + one.sentence} data-s=${MARK[one.severity] ?? "warn"}><${Icon} name=${one.severity === "info" ? "waiting" : "warn"} /><div><span class="t" dir="auto">${one.sentence}</span> <span class="say" dir="auto">${one.cure}</span></div><span></span></li>`)}</ul>` : html`<p class="pad"><${State} state="completed" text="Nothing is wrong" /></p>`)}<//>`
          : html`<p class="pad quiet">The doctor needs the role admin.</p>`}<//></div>
      ${seesAll.value && html`<${Counters} />`}
      <${Metrics} />
      <div class="cols"><${Panel} span=${6} title="Rules" note=${rules.data ? number(rules.data.rules.length) : ""}><${Loaded} of=${rules}>${(found) => (found.rules.length ? html`<div class="scroll"><table class="table"><thead><tr><th>Rule</th><th>When these end</th><th>creates</th></tr></thead><tbody>${found.rules.map((one) => html`<tr key=${one.name}><td dir="auto" class="cut"><b>${one.name}</b>${one.gone_at && html` <${Tag}>gone<//>`}</td><td class="clip nm" dir="auto" title=${one.parents.join(", ")}>${one.parents.join(", ")}</td><td dir="auto" class="cut">${one.create}</td></tr>`)}</tbody></table></div>` : html`<${Empty} title="No rule">A rule makes a job when others have ended.<//>`)}<//><//>
        <${Panel} span=${6} title="Open fan-ins" note=${fanIns.data ? number(fanIns.data.fan_ins.length) : ""}><${Loaded} of=${fanIns}>${(found) => (found.fan_ins.length ? html`<div class="scroll"><table class="table"><thead><tr><th>Rule</th><th>Key</th><th>Missing</th><th class="num">Since</th></tr></thead><tbody>${found.fan_ins.map((one, i) => html`<tr key=${i}><td dir="auto">${one.rule}</td><td class="mono clip nm" dir="auto">${JSON.stringify(one.key)}</td><td class="cut" dir="auto">${one.missing.join(", ") || one.error}${one.failed.map((part) => html` <a key=${part.job_id} href=${jobLink(part.job_id)}>${part.kind} ${part.state}</a>`)}</td><td class="num"><${Age} at=${one.opened_at} plain /></td></tr>`)}</tbody></table></div>` : html`<p class="pad quiet">No child waits for parents.</p>`)}<//><//></div>
      ${can("admin") && html`<${Panel} title="Tables" note=${tables.data ? bytes(tables.data.tables.reduce((total, one) => total + (one.bytes ?? 0), 0)) : ""} aside=${html`<button type="button" class="btn small" onClick=${tables.reload}>Measure again</button>`}><${Loaded} of=${tables}>${(found) => html`<${Tables} tables=${found.tables} />`}<//><//>`}
      ${can("admin") && html`<${Panel} title="Settings" note="secrets are hidden" aside=${html`<a class="btn small" href=${adjusted({ all: all ? null : "1" })}>${all ? "Only what is set" : "Show defaults"}</a>`}><${Loaded} of=${settings}>${(found) => html`<div class="scroll"><table class="table"><thead><tr><th>Key</th><th>Value</th><th>From</th></tr></thead><tbody>${found.settings.filter((one) => all || one.origin !== "default").map((one) => html`<tr key=${one.key}><td class="mono">${one.key}</td><td class="mono clip nm" dir="auto" title=${one.value}>${one.value}</td><td class="quiet">${one.origin}</td></tr>`)}</tbody></table></div>`}<//><//>`}
    </div>`;
}

// The problems that are not of a part of an instance: those have lines of their own, with a link.
function others(problems) {
  const known = instances.value.flatMap((one) => (one.degraded ?? []).map(({ part }) => `${part} of instance ${one.id} `));
  return problems.filter((text) => !known.some((start) => text.startsWith(start)));
}

const COUNTED = {
  retries: "attempts that failed and are tried again",
  stuck_released: "stuck jobs that were freed",
  lock_skips: "jobs skipped, another holder had their lock",
  redis_errors: "calls to Redis that failed",
  duplicates_prevented: "outputs that existed already",
  locks_lost: "locks that ended before their release",
  lease_lost: "leases that were lost",
  time_limits: "jobs over their time limit",
  crashes: "processes that died while a job ran",
  loop_blocked: "handlers that blocked the event loop",
  reconnects: "connections to the database made again",
};

// Rarer events that living instances have counted since their starts, summed.
function Counters() {
  const living = instances.value.filter((one) => one.is_alive);
  return html`<${Panel} title="Counters" note=${`of ${many(living.length, "living instance")} since ${living.length === 1 ? "its start" : "their starts"}`}><dl class="counters pad">${Object.entries(COUNTED).map(([name, say]) => {
    const value = living.reduce((total, one) => total + (one.counters?.[name] ?? 0), 0);
    return html`<div key=${name} data-counter=${name}><dt>${name.replaceAll("_", " ")}</dt><dd><b><${Count} value=${value} to=${link("/processors", { counter: name })} /></b> <small>${say}</small></dd></div>`;
  })}</dl><//>`;
}

// The largest tables with a bar each; those that hold next to nothing are one line.
function Tables({ tables }) {
  const most = Math.max(1, ...tables.map((one) => one.bytes ?? 0));
  const shown = tables.filter((one, i) => i < 12 && (one.bytes === null || one.bytes > most / 1000));
  const rest = tables.filter((one) => !shown.includes(one));
  return html`<div class="scroll"><table class="table rows sizes"><thead><tr><th>Table</th><th class="num">Rows</th><th class="num">Size</th><th>Share</th></tr></thead><tbody>
    ${shown.map((one) => html`<tr key=${one.table}><td class="mono">${one.table}</td><td class="num">${number(one.rows)}</td><td class="num">${bytes(one.bytes)}</td><td class="pg"><div class="track"><i style=${{ "--v": `${(100 * (one.bytes ?? 0)) / most}%` }}></i></div></td></tr>`)}</tbody></table></div>
    ${rest.length > 0 && html`<p class="pad quiet">${many(rest.length, "smaller table")}, ${bytes(rest.reduce((total, one) => total + (one.bytes ?? 0), 0))} in all.</p>`}`;
}

// Every metric that the service has, as Prometheus gets it; those of one family fold.
function Metrics() {
  const found = useMetrics();
  const open = new Set((query.value.get("open") ?? "").split(",").filter(Boolean));
  const toggle = (name) => {
    const next = new Set(open);
    if (!next.delete(name)) next.add(name);
    adjust({ open: [...next].join(",") });
  };
  return html`<${Panel} title="Metrics" note=${found.data ? many(found.data.length, "family", "families") : ""}><${Loaded} of=${found}>${(families) => html`<div class="scroll"><table class="table rows metrics"><thead><tr><th>Metric</th><th>What it says</th><th class="num">Series</th><th class="num">Sum</th></tr></thead><tbody>
    ${families.map((one) => html`<tr key=${one.name}><td class="full"><button type="button" class="fold btn plain" aria-expanded=${open.has(one.name)} aria-label=${one.name} onClick=${() => toggle(one.name)}><${Icon} name=${open.has(one.name) ? "down" : "more"} /></button><span class="mono">${one.name}</span></td><td class="clip nm quiet" title=${one.help}>${one.help}</td><td class="num">${number(one.samples.length)}</td><td class="num">${one.sum === null ? "–" : number(one.sum)}</td></tr>
      ${open.has(one.name) && html`<tr class="detail"><td colspan="4"><table class="table tight"><tbody>${one.samples.slice(0, 100).map((item) => html`<tr key=${item.labels}><td class="mono clip nm" dir="auto" title=${item.labels}>${item.labels || "–"}</td><td class="num">${number(item.value)}</td></tr>`)}</tbody></table></td></tr>`}`)}</tbody></table></div>`}<//><//>`;
}
