// What needs a person, worst first: each with what it is, what follows, and the cure.
import { duration, many, number } from "./format.js";
import { jobsLink, link, term } from "./router.js";
import { causeOf, causeTerm, messageOf } from "./states.js";

// What the doctor finds and the list says already, with numbers that move: phases without a worker, pauses, dead instances.
const SAID = /^(phase|recovery|instance)\./;

export function needs({ overview, groups, schedules, findings, now, growths }) {
  const found = degraded(overview?.instances ?? []);
  for (const one of findings ?? []) {
    if (one.severity === "note" || SAID.test(one.code)) continue;
    const isError = one.severity === "error";
    found.push({ key: `x${one.code}${one.sentence}`, state: isError ? "failed" : "warn", icon: "warn", weight: isError ? 4 : 1, text: one.sentence, say: one.cure, acts: [{ text: "Doctor", to: link("/system") }] });
  }
  for (const group of groups ?? []) {
    if (!group.hour) continue;
    found.push({
      key: `f${group.kind}${group.phase}${group.type}${group.code}${group.place}`, state: "failed", icon: "failed", weight: 3,
      text: `${many(group.hour, "job")} failed with ${causeOf(group)} in ${group.phase}`, say: `“${messageOf(group)}”, in the last hour`,
      acts: [{ text: `See ${many(group.hour, "job")}`, to: jobsLink("state:failed", causeTerm(group), term("phase", group.phase)) }, { text: "Retry all…", bulk: ["retry", ["state:failed", causeTerm(group), term("phase", group.phase), term("kind", group.kind)].join(" ")] }],
    });
  }
  for (const one of overview?.phases ?? []) {
    const queued = one.counts?.queued ?? 0;
    if (queued && !one.instances) found.push({ key: `u${one.name}`, state: "failed", icon: "warn", weight: 4, text: `No instance serves ${one.name}`, say: `${many(queued, "job")} ${queued === 1 ? "waits" : "wait"}, the oldest for ${duration(one.oldest)}; start a worker that serves it`, acts: [{ text: "See the jobs", to: jobsLink("state:queued", term("phase", one.name)) }] });
    else if (queued && one.is_paused) found.push({ key: `p${one.name}`, state: "paused", icon: "paused", weight: 1, text: `${one.name} is paused`, say: `${one.waits || "until it is resumed"}; ${many(queued, "job")} ${queued === 1 ? "waits" : "wait"}`, acts: [{ text: "Resume…", resume: one.name }] });
    else if (queued > one.processors && one.processors && one.busy >= one.processors && one.oldest > 60) {
      const grows = growths?.(one.name);
      found.push({ key: `b${one.name}`, state: "warn", icon: "warn", weight: 2, text: `${one.name} cannot keep up`, say: `${one.busy} of ${one.processors} busy, ${number(queued)} queued${grows > 0 ? `, ${number(Math.round(grows))} more each minute` : ""}; the oldest waits for ${duration(one.oldest)}`, acts: [{ text: "See the queue", to: jobsLink("state:queued", term("phase", one.name)) }, { text: "Processors", to: link("/processors", { phase: one.name }) }] });
    }
  }
  for (const one of overview?.instances ?? []) if (one.state === "lost") found.push({ key: `l${one.id}`, state: "lost", icon: "lost", weight: 2, text: `Instance pid ${one.pid ?? "–"} on ${one.host} is lost`, say: `its last heartbeat was ${duration((now - Date.parse(one.heartbeat_at)) / 1000)} ago; recovery gives its jobs to others`, acts: [{ text: "Open", to: link("/processors", { instance: one.id }) }] });
  for (const one of schedules ?? []) if (one.skipped > 0 && one.state === "active" && one.last_at && now - Date.parse(one.last_at) < 86400000) found.push({ key: `s${one.name}`, state: "warn", icon: "scheduled", weight: 1, text: `${one.name} missed ${many(one.skipped, "due time")}`, say: `rule for missed times: ${one.missed}`, acts: [{ text: "Open", to: link("/schedules") }] });
  return found.sort((a, b) => b.weight - a.weight);
}

// Parts of instances that are not well: one line for all instances that say the same of the same part.
export function degraded(instances) {
  const lines = new Map();
  for (const one of instances) {
    if (one.state !== "running") continue;
    for (const part of one.degraded ?? []) {
      const key = `d${part.part}${part.state}${part.advice}`;
      if (!lines.has(key)) lines.set(key, { part, at: [] });
      lines.get(key).at.push(one);
    }
  }
  return [...lines].map(([key, { part, at }]) => {
    const isDown = part.state === "down";
    const where = at.length > 1 ? many(at.length, "instance") : `${at[0].host} pid ${at[0].pid ?? "–"}`;
    return {
      key, state: isDown ? "failed" : "warn", icon: "warn", weight: isDown ? 4 : 2, text: `${part.part} is ${part.state} on ${where}`, say: [part.seen, part.advice].filter(Boolean).join(". "),
      acts: [{ text: at.length > 1 ? "Instances" : "Instance", to: link("/processors", at.length > 1 ? {} : { instance: at[0].id }) }],
    };
  });
}
