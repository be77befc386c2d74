// What needs a person, worst first: each with what it is, what follows, and the cure.
import { duration, many, number } from "./format.js";
import { jobsLink, link, term } from "./router.js";
import { messageOf } from "./states.js";

export function needs({ overview, groups, schedules, now, growths }) {
  const found = [];
  for (const group of groups ?? []) {
    if (!group.hour) continue;
    found.push({
      key: `f${group.kind}${group.phase}${group.type}${group.place}`, state: "failed", icon: "failed", weight: 3,
      text: `${many(group.hour, "job")} failed with ${group.type || group.code} in ${group.phase}`, say: `“${messageOf(group)}”, in the last hour`,
      acts: [{ text: `See ${many(group.hour, "job")}`, to: jobsLink("state:failed", term(group.type ? "exception" : "error", group.type || group.code), term("phase", group.phase)) }, { text: "Retry all…", bulk: ["retry", ["state:failed", term(group.type ? "exception" : "error", group.type || group.code), term("phase", group.phase), term("kind", group.kind)].join(" ")] }],
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
