// The jobs around a job, one row for each level: what it comes from above, what it leads to below. Jobs of one level, kind and state are one
// node, so that a fan-out of thousands is as small as one of two; lines lead from node to node.
import { html } from "../lib/html.js";
import { Icon } from "./icon.js";
import { number } from "../lib/format.js";
import { titleOf } from "../lib/states.js";
import { adjusted, jobLink, jobsLink, query, term } from "../lib/router.js";

const MOST = 6;
const STEP = 20;

export function Graph({ job, found }) {
  const open = new Set((query.value.get("levels") ?? "").split(",").filter(Boolean).map(Number));
  const levels = [...new Set(found.groups.map((one) => one.level))];
  const rows = levels.map((level) => {
    const all = found.groups.map((group, place) => ({ ...group, place })).filter((one) => one.level === level);
    const whole = open.has(level) || all.length <= MOST;
    return { level, shown: whole ? all : all.slice(0, MOST - 1), left: whole ? 0 : all.length - MOST + 1 };
  });
  return html`<div class="graphbox pad" tabindex="0" role="group" aria-label="Jobs around this one"><div class="graph">
    ${rows.map((row, i) => html`${i > 0 && html`<${Lines} key=${`l${row.level}`} above=${rows[i - 1]} below=${row} edges=${found.edges} />`}
      <div key=${row.level} class="level">${row.shown.map((group) => html`<${Node} key=${group.place} group=${group} job=${job} />`)}
        ${row.left > 0 && html`<a class="btn small plain" href=${adjusted({ levels: [...open, row.level].join(",") })}>${row.left} more groups</a>`}</div>`)}
    ${found.is_cut && html`<p class="quiet">There are more jobs than are shown.</p>`}</div></div>`;
}

function Node({ group, job }) {
  const { kind, state, count, level } = group;
  if (level === 0 && group.sample === job.id) return html`<span class="node self" data-s=${state} aria-current="true"><${Icon} name=${state} /><span class="cut" dir="auto">${titleOf(job)}</span><small>this job</small></span>`;
  const to = count > 1 && level === -1 ? jobsLink(`batch:${job.id}`, term("kind", kind), `state:${state}`) : jobLink(group.sample);
  const say = count === 1 ? `${kind}, ${state}` : `${number(count)} jobs of ${kind}, ${state}`;
  return html`<a class="node ${count === 1 ? "" : "fan"}" href=${to} data-s=${state} title=${say} aria-label=${say}><${Icon} name=${state} /><span class="cut" dir="auto">${kind}</span>${count > 1 && html`<b>× ${number(count)}</b>`}<small>${state}</small></a>`;
}

// Lines between two rows whose nodes are of equal width.
function Lines({ above, below, edges }) {
  const spot = (row, place) => {
    const i = row.shown.findIndex((one) => one.place === place);
    return i < 0 ? null : (100 * (i + 0.5)) / (row.shown.length + (row.left ? 1 : 0));
  };
  const drawn = edges.map((one) => [spot(above, one.parent), spot(below, one.child)]).filter(([a, b]) => a !== null && b !== null);
  return html`<svg class="lines" viewBox=${`0 0 100 ${STEP}`} preserveAspectRatio="none" aria-hidden="true">${drawn.map(([a, b]) => html`<path key=${`${a} ${b}`} d=${`M${a} 0C${a} ${STEP / 2} ${b} ${STEP / 2} ${b} ${STEP}`} />`)}</svg>`;
}
