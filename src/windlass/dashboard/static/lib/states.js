// What a job is called, which mark it has, and what happens next with it: one sentence for every state.
import { term } from "./router.js";
import { between, duration, number, time } from "./format.js";

// A job that waits for its next attempt has a mark of its own.
export function markOf(job) {
  return job.state === "scheduled" && job.attempt > 0 ? "retry" : job.state;
}

export const isOver = (state) => state === "completed" || state === "failed" || state === "cancelled";
export const canCancel = (job) => !isOver(job.state) && !job.cancel_requested_at;
export const canRetry = (job) => isOver(job.state);
export const canRunNow = (job) => job.state === "scheduled";
export const canEdit = (job) => job.attempt === 0 && ["queued", "scheduled", "waiting"].includes(job.state);

export const titleOf = (job) => job.title || job.kind;

// Types that say no more than that a job failed: the code says why.
const SAYS_NOTHING = new Set(["Fail", "Retry"]);
const byCode = (one) => Boolean(one.code) && (!one.type || SAYS_NOTHING.has(one.type));

// What an error, or a group of failures, is called, and the term that finds its jobs.
export const causeOf = (one) => (byCode(one) ? one.code : one.type || one.code || "error");
export const causeTerm = (one) => term(byCode(one) ? "error" : "exception", causeOf(one));

// The message of a group of failures without the type that stands beside it.
export const messageOf = (group) => (group.type && group.message.startsWith(`${group.type}: `) ? group.message.slice(group.type.length + 2) : group.message);

export function errorText(error) {
  if (!error) return "";
  const name = causeOf(error);
  if (!error.message) return name;
  return error.message.startsWith(name) ? error.message : `${name}: ${error.message}`;
}

// What happens next, from the facts of a list; the page of a job asks the service for the whole reason.
export function nextOf(job, now) {
  const left = job.run_at ? (Date.parse(job.run_at) - now) / 1000 : 0;
  const when = left <= 0 ? "is due" : left < 3600 ? `in ${duration(left)}` : `at ${time(job.run_at)}, in ${duration(left)}`;
  switch (job.state) {
    case "waiting":
      return job.pending ? { text: `waits for ${number(job.pending)} ${job.pending === 1 ? "job" : "jobs"}` } : { text: job.why || "waits for its turn" };
    case "scheduled":
      if (job.attempt > 0) return { text: `retries ${when}, try ${job.attempt + 1} of ${job.max_attempts}${job.error ? ": " : ""}`, mono: errorText(job.error) };
      return { text: left <= 0 ? "is due now" : `runs ${when}` };
    case "queued":
      return { text: job.why || "next free processor of ", strong: job.why ? "" : job.phase };
    case "processing":
      if (job.cancel_requested_at) return { text: "is asked to stop" };
      return { text: progressText(job) || (job.started_at ? `runs for ${duration((now - Date.parse(job.started_at)) / 1000)}` : "was claimed") };
    case "completed":
      return { text: job.started_at && job.finished_at ? `ran ${duration(between(job.started_at, job.finished_at))}` : "completed" };
    case "cancelled":
      return { text: job.error?.message || "cancelled" };
    default:
      return { text: "", mono: errorText(job.error) };
  }
}

export function progressText(job) {
  const progress = job.progress;
  if (!progress) return "";
  const left = progress.seconds_left;
  const parts = [progress.total ? `${number(progress.done)} of ${number(progress.total)}` : `${number(progress.done)} done`];
  if (left !== null && left !== undefined && !isOver(job.state)) parts.push(`about ${duration(left)} left`);
  return parts.join(", ");
}
