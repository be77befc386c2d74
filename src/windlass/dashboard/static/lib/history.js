// Statistics over time, in equal steps: from the roll-ups of the service, and the depth of queues since the tab was opened.
import { effect, signal } from "@preact/signals";
import { pathOf } from "./api.js";
import { now } from "./live.js";
import { between, phases } from "./facts.js";
import { useResource } from "./resource.js";
import { can, seesAll } from "./session.js";

export const RANGES = { "1h": { seconds: 3600, step: 60, every: 15 }, "24h": { seconds: 86400, step: 3600, every: 60 }, "7d": { seconds: 604800, step: 3600, every: 300 }, "90d": { seconds: 7776000, step: 86400, every: 600 } };

// Instances write the statistics of a minute every ten seconds (`worker.rollup`), so that a step is whole only so many seconds after its end.
const SETTLES = 15;

export function useHistory(range, phase = null) {
  const { seconds, step, every } = RANGES[range] ?? RANGES["1h"];
  const until = Math.floor((now.value / 1000 - SETTLES) / step) * step;
  const since = new Date((until - seconds) * 1000).toISOString();
  const found = useResource(pathOf("/v1/history", { since, step, phase }), { every, keep: true });
  return { ...found, step, from: until - seconds, until };
}

// Deploys of the same span, as marks of charts.
export function useMarks({ from }) {
  const found = useResource(can("view") && seesAll.value ? pathOf("/v1/deploys", { since: new Date(from * 1000).toISOString(), limit: 50 }) : null, { every: 60, keep: true });
  return (found.data?.deploys ?? []).map((one) => ({ at: Date.parse(one.at) / 1000, text: one.text }));
}

const SUMS = ["completed", "failed", "retried", "cancelled"];
const WORST = ["wait_p50", "wait_p95", "run_p50", "run_p95"];

// Sums of the counts and the worst of the percentiles for each step; only `names` of the phases, if given. A job that completes a phase
// goes on to the next one: where several phases are summed, only the last phase of a kind completes jobs.
export function stepped({ data, step, from, until }, names = null) {
  const single = names?.length === 1;
  const at = [];
  for (let time = from; time <= until; time += step) at.push(time);
  const made = { at, perMinute: 60 / step };
  for (const name of SUMS) made[name] = at.map(() => 0);
  for (const name of WORST) made[name] = at.map(() => null);
  for (const point of data?.points ?? []) {
    if (names && !names.includes(point.phase)) continue;
    const place = Math.round((Date.parse(point.at) / 1000 - from) / step);
    if (place < 0 || place >= at.length) continue;
    for (const name of SUMS) if (single || name !== "completed" || !between.value.has(point.phase)) made[name][place] += point[name];
    for (const name of WORST) if (point[name] !== null) made[name][place] = Math.max(made[name][place] ?? 0, point[name]);
  }
  return made;
}

export const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
export const newest = (values) => values.findLast((value) => value !== null && value !== undefined) ?? null;
// The last whole step: the newest one is not over.
export const lastWhole = (values) => values.at(-2) ?? 0;
// Jobs completed a minute: of the last whole step, so that one second of many ends is not shown as a rate; before there is one, as of now.
export const donePerMinute = (steps, live) => Math.round(sum(steps.completed.slice(0, -1)) ? lastWhole(steps.completed) * steps.perMinute : live * 60);

const DEPTHS = 720;
const EVERY = 5000;
export const depths = signal([]);

export function startDepths() {
  effect(() => {
    const known = phases.value;
    if (!known.length) return;
    const kept = depths.peek();
    const time = now.peek();
    if (kept.length && time - kept.at(-1).at < EVERY) return;
    depths.value = [...kept.slice(1 - DEPTHS), { at: time, queued: new Map(known.map((one) => [one.name, one.counts?.queued ?? 0])) }];
  });
}

// The phases that fall behind: more jobs wait than there are processors, and ever more. Everything that judges a backlog asks this.
export const behind = (known) => known.filter((one) => (one.counts?.queued ?? 0) > (one.processors ?? 0) && growth([one.name]) >= 1);

// How fast queues grow, jobs a minute, over the last two minutes; null before half a minute is known.
export function growth(names) {
  const recent = depths.value.filter((one) => one.at > now.value - 120000);
  if (recent.length < 7) return null;
  const depth = (one) => names.reduce((total, name) => total + (one.queued.get(name) ?? 0), 0);
  const [first, last] = [recent[0], recent.at(-1)];
  return ((depth(last) - depth(first)) * 60000) / (last.at - first.at);
}
