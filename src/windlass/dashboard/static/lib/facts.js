// What every screen knows: the kinds with their phases, and the newest state of all phases and instances.
import { computed, effect, signal } from "@preact/signals";
import { get } from "./api.js";
import { repeat } from "./resource.js";
import { sample } from "./stream.js";
import { seesAll, session } from "./session.js";
import { visible } from "./live.js";

const READ_KINDS = 60;
const READ_STATE = 2;
const READ_REASONS = 10;

export const kinds = signal([]);
const read = signal(null);

// The newest sample of the stream over what was read; without a stream what was read, every two seconds.
export const overview = computed(() => {
  const [whole, live] = [read.value, sample.value];
  if (!whole) return null;
  if (!live) return { ...whole, phases: whole.phases.map((one) => ({ ...one, is_paused: Boolean(one.pause) })) };
  const served = new Map();
  for (const one of live.instances.filter(({ state }) => !["lost", "dead", "stopping", "stopped"].includes(state))) {
    for (const { name, busy, size } of one.phases) {
      const sums = served.get(name) ?? { busy: 0, processors: 0, instances: 0 };
      served.set(name, { busy: sums.busy + busy, processors: sums.processors + size, instances: sums.instances + 1 });
    }
  }
  const none = { busy: 0, processors: 0, instances: 0 };
  return { ...whole, instances: live.instances, phases: whole.phases.map((one) => ({ ...one, ...(served.get(one.name) ?? none), is_paused: Boolean(one.pause), ...live.phases[one.name] })) };
});
export const phases = computed(() => overview.value?.phases ?? []);
export const instances = computed(() => overview.value?.instances ?? []);
export const byPhase = computed(() => new Map(phases.value.map((one) => [one.name, one])));
// How code defines a phase: its short name, its time limit, the most jobs that may wait for it.
export const definitions = computed(() => new Map(kinds.value.flatMap((kind) => kind.defined.map((phase) => [phase.name, phase]))));
// Phases after which a job goes on.
export const between = computed(() => new Set(kinds.value.flatMap((kind) => kind.phases.slice(0, -1))));
export const labelOf = (phase) => definitions.value.get(phase)?.label ?? phase;
export const phasesOf = (kind) => kinds.value.find((one) => one.name === kind)?.phases ?? null;
export const totals = computed(() => {
  const sums = { waiting: 0, scheduled: 0, queued: 0, processing: 0, completed: 0, failed: 0, cancelled: 0 };
  for (const { counts } of phases.value) for (const state of Object.keys(sums)) sums[state] += counts?.[state] ?? 0;
  return sums;
});

export async function readOverview(age = 0) {
  if (!session.peek() || !seesAll.peek()) return;
  try {
    read.value = await get("/v1/overview", { age });
  } catch {
    // a lost server is shown by the bar; what was read stays
  }
}

async function readKinds(age) {
  if (!session.peek()) return;
  try {
    const found = await get("/v1/pipelines", { age });
    kinds.value = found.pipelines.map((one) => ({ ...one, defined: one.phases, phases: one.phases.map((phase) => phase.name) }));
  } catch {
    // as above
  }
}

export function startFacts() {
  effect(() => {
    if (!session.value || !visible.value) return undefined;
    const endKinds = repeat(readKinds, READ_KINDS);
    let last = Date.now();
    readOverview(READ_REASONS);
    // With a stream the numbers come by themselves, and only what it does not have is read now and then.
    const endState = repeat(async () => {
      const wait = sample.peek() ? READ_REASONS : READ_STATE;
      if (Date.now() - last < wait * 1000) return;
      await readOverview(wait);
      last = Date.now();
    }, READ_STATE);
    return () => {
      endKinds();
      endState();
    };
  });
}
