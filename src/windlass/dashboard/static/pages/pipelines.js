// All pipelines, and phases that have jobs but no code here.
import { html } from "../lib/html.js";
import { number } from "../lib/format.js";
import { jobsLink, link, term } from "../lib/router.js";
import { now } from "../lib/live.js";
import { can } from "../lib/session.js";
import { definitions, instances, kinds, overview, phases, byPhase } from "../lib/facts.js";
import { pausePhase, resumePhase, submitJob } from "../lib/acts.js";
import { Head, Panel } from "../components/panel.js";
import { Mini, processorsOf } from "../components/cells.js";
import { Count, Tag } from "../components/marks.js";
import { Empty } from "../components/empty.js";
import { duration } from "../lib/format.js";
import { KindState } from "./overview.js";

export function Pipelines() {
  const known = kinds.value;
  const orphans = phases.value.filter((one) => !definitions.value.has(one.name));
  return html`<${Head} title="Pipelines" note=${known.length ? `${known.length} kinds, ${phases.value.length} phases` : ""}><span class="fill"></span>
      ${can("submit") && known.length > 0 && html`<button type="button" class="btn primary" onClick=${() => submitJob(() => kinds.value)}>Submit…</button>`}<//>
    <div class="stack">
      ${known.length === 0 && overview.value && html`<section class="panel"><${Empty} title="No pipeline is defined here" commands=${["windlass init", "windlass dev app.py"]}>The application of this server defines no job. Write a file with one and start again:<//></section>`}
      ${known.length > 0 && html`<${Panel} label="Pipelines"><div class="scroll"><table class="table rows lines"><thead><tr><th>Pipeline</th><th class="num">Phases</th><th class="num">Waiting</th><th class="num">Queued</th><th class="num">Running</th><th class="num hide-m">Completed</th><th class="num">Failed</th><th class="hide-m">Processors</th><th>State</th></tr></thead>
        <tbody>${known.map((kind) => html`<${Row} key=${kind.name} kind=${kind} />`)}</tbody></table></div><//>`}
      ${orphans.length > 0 && html`<${Panel} title="Other phases" note="known from jobs and instances, not defined in the application of this server"><${Phases} list=${orphans} /><//>`}
    </div>`;
}

function Row({ kind }) {
  const known = kind.phases.map((name) => byPhase.value.get(name)).filter(Boolean);
  const of = (state) => known.reduce((total, one) => total + (one.counts?.[state] ?? 0), 0);
  const cells = kind.phases.flatMap((name) => processorsOf(name, instances.value, now.value));
  const to = link(`/pipelines/${encodeURIComponent(kind.name)}`);
  const jobs = (state) => jobsLink(`state:${state}`, term("kind", kind.name));
  return html`<tr><td class="full"><a href=${to} dir="auto"><b>${kind.name}</b></a></td><td class="num" data-w="phases">${kind.phases.length}</td>
    <td class="num" data-w="waiting"><${Count} value=${of("waiting") + of("scheduled")} to=${jobs("waiting,scheduled")} /></td><td class="num" data-w="queued"><${Count} value=${of("queued")} to=${jobs("queued")} /></td>
    <td class="num" data-w="running"><${Count} value=${of("processing")} to=${jobs("processing")} /></td><td class="num hide-m"><${Count} value=${of("completed")} to=${jobs("completed")} /></td><td class="num" data-w="failed"><${Count} value=${of("failed")} to=${jobs("failed")} loud="failed" /></td>
    <td class="hide-m"><${Mini} cells=${cells} /></td><td><${KindState} known=${known} /></td></tr>`;
}

export function Phases({ list }) {
  return html`<div class="scroll"><table class="table rows lines"><thead><tr><th>Phase</th><th class="num">Queued</th><th class="num">Running</th><th class="num">Failed</th><th class="num">Oldest</th><th>Processors</th><th>State</th><th><span class="sr">Actions</span></th></tr></thead>
    <tbody>${list.map((one) => html`<tr key=${one.name}><td class="full clip" dir="auto" title=${one.name}>${one.name}</td>
      <td class="num" data-w="queued"><${Count} value=${one.counts.queued} to=${jobsLink("state:queued", term("phase", one.name))} /></td><td class="num" data-w="running"><${Count} value=${one.counts.processing} to=${jobsLink("state:processing", term("phase", one.name))} /></td><td class="num" data-w="failed"><${Count} value=${one.counts.failed} to=${jobsLink("state:failed", term("phase", one.name))} loud="failed" /></td>
      <td class="num" data-w="oldest">${one.counts.queued ? html`<a href=${jobsLink("state:queued", term("phase", one.name))}>${duration(one.oldest)}</a>` : "–"}</td><td data-w="busy"><a href=${jobsLink("state:processing", term("phase", one.name))}>${number(one.busy)} <small>of ${number(one.processors)}</small></a></td>
      <td class="full">${one.is_paused || one.pause ? html`<${Tag} state="paused" icon="paused">paused<//>` : one.counts.queued && !one.instances ? html`<${Tag} state="failed" icon="warn">not served<//>` : html`<span class="quiet">${one.waits || "served"}</span>`}</td>
      <td class="num">${can("operate") && (one.is_paused || one.pause ? html`<button type="button" class="btn small" onClick=${() => resumePhase(one.name)}>Resume…</button>` : html`<button type="button" class="btn small" onClick=${() => pausePhase(one.name)}>Pause…</button>`)}</td></tr>`)}</tbody></table></div>`;
}
