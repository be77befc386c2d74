// What can be done to jobs, phases, schedules and instances: each with its dialog, its request, and news of the outcome.
import { ask } from "../components/dialog.js";
import { toast } from "../components/toast.js";
import { get, pathOf, post, request } from "./api.js";
import { capped, number } from "./format.js";
import { go, jobLink, link } from "./router.js";
import { html } from "./html.js";
import { titleOf } from "./states.js";
import { readOverview } from "./facts.js";

const at = (id) => `/v1/jobs/${encodeURIComponent(id)}`;
const given = (reason) => (reason ? { reason } : {});

export function cancelJob(job, done) {
  ask({
    title: `Cancel ${titleOf(job)}?`, label: "Cancel the job", keep: "Keep it", reason: "required", hint: "Reason, shown with the job", danger: true,
    text: job.state === "processing" ? "It runs now: its handler is asked to stop at its next chance. What it stored stays." : "It has not begun. It will not run.",
    act: async ({ reason }) => {
      const found = await post(`${at(job.id)}/cancel`, { reason });
      toast(found?.result === "requested" ? "The job is asked to stop" : "The job is cancelled");
      done?.();
    },
  });
}

export function retryJob(job, done) {
  ask({
    title: `Retry ${titleOf(job)}?`, label: "Retry the job", reason: "optional",
    text: html`It starts again at <b>${job.phase}</b>; outputs of earlier phases and its history are kept.`,
    fields: [{ name: "dependents", type: "checkbox", label: "also the jobs that were cancelled because of it" }],
    act: async ({ reason, dependents }) => {
      await post(`${at(job.id)}/retry`, { ...given(reason), dependents });
      toast("The job runs again");
      done?.();
    },
  });
}

export function runNow(job, done) {
  ask({
    title: `Run ${titleOf(job)} now?`, label: "Run now", reason: "optional", text: "It becomes due at once. Limits, rates and pauses of its phase still hold.",
    act: async ({ reason }) => {
      await post(`${at(job.id)}/run-now`, given(reason));
      toast("The job is due");
      done?.();
    },
  });
}

export function deleteJob(job) {
  ask({
    title: `Delete ${titleOf(job)}?`, label: "Delete the job", danger: true, reason: "required",
    text: "Its attempts, outputs and log lines are removed. The audit trail keeps who deleted it. This cannot be undone.",
    act: async ({ reason }) => {
      await request("DELETE", pathOf(at(job.id), { reason }));
      toast("The job is deleted");
      go(link("/jobs"));
    },
  });
}

export function editJob(job, done) {
  ask({
    title: `Edit ${titleOf(job)}`, label: "Save", wide: true, reason: "optional", text: "The arguments are checked by the signature of the kind. A job that has begun cannot be changed.",
    fields: [
      { name: "arguments", label: "Arguments, JSON", rows: 10, value: JSON.stringify(job.arguments, null, 2) },
      { name: "priority", label: "Priority, 0 to 9; 9 is served first", type: "number", min: 0, max: 9, value: job.priority },
    ],
    act: async ({ reason, ...values }) => {
      const body = { priority: Number(values.priority), ...given(reason) };
      const changed = changedOf(job.arguments, parsed(values.arguments));
      if (Object.keys(changed).length) body.arguments = changed;
      await request("PATCH", at(job.id), { body, headers: { "If-Match": `"${job.version}"` } });
      toast("The job is changed");
      done?.();
    },
  });
}

// `kinds` is a function: the dialog may be open before all kinds are known.
export function submitJob(kinds, from = null) {
  const known = () => (kinds().length || !from ? kinds() : [{ name: from.kind }]);
  ask({
    title: from ? `Submit ${from.kind} again` : "Submit a job", label: "Submit", keep: "Close", wide: true,
    text: from ? "A new job with these arguments. Values that are hidden here have to be given anew." : "The arguments are checked by the signature of the kind.",
    fields: [
      { name: "kind", label: "Kind", value: from?.kind ?? known()[0]?.name, options: () => known().map((one) => [one.name, one.name]) },
      { name: "arguments", label: "Arguments, JSON", rows: 8, value: JSON.stringify(from?.arguments ?? {}, null, 2) },
      { name: "priority", label: "Priority, 0 to 9; 9 is served first", type: "number", min: 0, max: 9, value: from?.priority ?? 5 },
    ],
    act: async (values) => {
      const found = await post("/v1/jobs", { kind: values.kind, arguments: parsed(values.arguments), priority: Number(values.priority) });
      toast("The job is submitted", { to: jobLink(found.id), open: "Open" });
      go(jobLink(found.id));
    },
  });
}

function parsed(text) {
  try {
    const found = JSON.parse(text);
    if (found && typeof found === "object" && !Array.isArray(found)) return found;
  } catch (error) {
    throw new Error(`the arguments are no JSON: ${error.message}`);
  }
  throw new Error('the arguments have to be an object, such as {"user_id": 7}');
}

const changedOf = (before, after) => Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before?.[name])));

const BULK = {
  retry: { verb: "Retry", past: "retried", text: "Each starts again at the phase where it ended; outputs and history are kept. Jobs that have not ended are left alone." },
  cancel: { verb: "Cancel", past: "cancelled", text: "Jobs that run are asked to stop; jobs that have ended are left alone.", danger: true },
  run_now: { verb: "Run now", past: "made due", text: "Scheduled jobs become due at once." },
  delete: { verb: "Delete", past: "deleted", text: "Jobs that have not ended are left alone. This cannot be undone.", danger: true },
  priority: { verb: "Change priority of", past: "changed", text: "Jobs that have begun keep their place." },
};

// Acts on all jobs of a filter: counted first, then an operation that survives restarts.
export async function bulk(act, filter, done) {
  const { verb, text, danger } = BULK[act];
  let counted;
  try {
    counted = await get(`/v1/jobs/count?${new URLSearchParams({ q: filter })}`);
  } catch (problem) {
    toast(problem.text, { bad: true });
    return;
  }
  const what = `${capped(counted) || "0"} ${counted.count === 1 ? "job" : "jobs"}`;
  ask({
    title: `${verb} ${what}?`, label: `${verb} ${what}`, danger, reason: "required",
    text: html`All jobs that match <span class="mono" dir="auto">${filter || "(every job)"}</span> now. ${text}`,
    fields: act === "priority" ? [{ name: "priority", label: "Priority, 0 to 9; 9 is served first", type: "number", min: 0, max: 9, value: 5 }] : [],
    act: async ({ reason, priority }) => {
      const options = act === "priority" ? { priority: Number(priority) } : {};
      const found = await post("/v1/operations", { act, filter, reason, ...options, all: !filter });
      toast(`Operation begun: ${verb.toLowerCase()} ${what}`, { to: link("/operations", { id: found.id }), open: "Watch" });
      done?.(found);
    },
  });
}

export function pausePhase(name) {
  ask({
    title: `Pause ${name}?`, label: "Pause", keep: "Keep running", reason: "required", hint: "Reason, shown on every waiting job",
    text: html`No new job starts in <b dir="auto">${name}</b>; jobs that run now finish.`,
    fields: [{ name: "minutes", label: "Minutes; empty is until it is resumed", type: "number", min: 1, value: "" }],
    act: async ({ reason, minutes }) => {
      await post(`/v1/phases/${encodeURIComponent(name)}/pause`, { reason, ...(minutes ? { lasts: Number(minutes) * 60 } : {}) });
      toast(`${name} is paused`);
      readOverview();
    },
  });
}

export function resumePhase(name) {
  ask({
    title: `Resume ${name}?`, label: "Resume", keep: "Keep paused", reason: "optional", text: "Its queued jobs start as soon as processors are free.",
    act: async ({ reason }) => {
      await post(`/v1/phases/${encodeURIComponent(name)}/resume`, given(reason));
      toast(`${name} is served again`);
      readOverview();
    },
  });
}

export function scalePhase(name, places) {
  ask({
    title: `Processors of ${name}`, label: "Change", reason: "optional", text: "Holds until the instance starts again. With fewer, running jobs finish first.",
    fields: [
      { name: "instance", label: "Instance", options: () => places.map((one) => [one.id, `${one.host} pid ${one.pid ?? "–"}: ${one.size} now`]) },
      { name: "count", label: "Processors", type: "number", min: 0, max: 1000, value: places[0]?.size ?? 1 },
    ],
    act: async ({ instance, count, reason }) => {
      await request("PUT", `/v1/instances/${encodeURIComponent(instance)}/processors/${encodeURIComponent(name)}`, { body: { count: Number(count), ...given(reason) } });
      toast(`${name} is asked to have ${number(Number(count))} processors`);
    },
  });
}

export function drainInstance(one) {
  ask({
    title: `Drain ${one.host} pid ${one.pid ?? "–"}?`, label: "Drain", danger: true, reason: "required", text: "It claims nothing more, its running jobs finish, and then it stops.",
    act: async ({ reason }) => {
      await post(`/v1/instances/${encodeURIComponent(one.id)}/drain`, { reason });
      toast("The instance is asked to drain");
    },
  });
}

export function scheduleAct(name, act, done) {
  const at = `/v1/schedules/${encodeURIComponent(name)}`;
  const TEXT = {
    "run-now": { title: `Run ${name} now?`, label: "Run now", reason: "optional", text: "Makes one job now. Its due times stay as they are." },
    pause: { title: `Pause ${name}?`, label: "Pause", keep: "Keep running", reason: "required", text: "Jobs that it made continue. Due times until it is resumed make no jobs." },
    resume: { title: `Resume ${name}?`, label: "Resume", keep: "Keep paused", reason: "optional", text: "It fires again, from its next due time on." },
  };
  ask({
    ...TEXT[act],
    act: async ({ reason }) => {
      const found = await post(`${at}/${act === "run-now" ? "run" : act}`, given(reason));
      if (act === "run-now") toast("The job is submitted", { to: jobLink(found.id), open: "Open job" });
      else toast(`${name} is ${act === "pause" ? "paused" : "active again"}`);
      done?.();
    },
  });
}

export function stopOperation(one, done) {
  ask({
    title: `Stop this ${one.act.replace("_", " ")}?`, label: "Stop", keep: "Let it go on", reason: "optional", text: "What it did stays done; the jobs that are left are not touched.",
    act: async ({ reason }) => {
      await post(`/v1/operations/${encodeURIComponent(one.id)}/stop`, given(reason));
      toast("The operation is stopped");
      done?.();
    },
  });
}
