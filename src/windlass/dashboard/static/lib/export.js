// Saves the jobs of a filter as a file, page after page, as the caller may see them.
import { ask } from "../components/dialog.js";
import { toast } from "../components/toast.js";
import { get, pathOf } from "./api.js";
import { many } from "./format.js";

const PAGE = 1000;
const MOST = 50000;
const COLUMNS = ["id", "kind", "phase", "state", "priority", "attempt", "max_attempts", "correlation_id", "created_at", "started_at", "finished_at", "error", "arguments"];

export function exportJobs(q) {
  ask({
    title: "Export these jobs", label: "Save", keep: "Close", text: `At most ${MOST} jobs, newest first, with what you may see of them.`,
    fields: [{ name: "form", label: "Form", options: () => [["csv", "CSV, for a spreadsheet"], ["jsonl", "JSON, a job a line"]], value: "csv" }],
    act: async ({ form }) => {
      const jobs = [];
      for (let cursor = null; jobs.length < MOST; ) {
        const page = await get(pathOf("/v1/jobs", { q, limit: PAGE, cursor }));
        jobs.push(...page.jobs);
        cursor = page.next_cursor;
        if (!cursor) break;
      }
      const text = form === "csv" ? [COLUMNS.join(","), ...jobs.map((job) => COLUMNS.map((name) => cell(job[name])).join(","))].join("\r\n") : jobs.map((job) => JSON.stringify(job)).join("\n");
      save(text, `jobs.${form}`, form === "csv" ? "text/csv" : "application/jsonl");
      toast(`${many(jobs.length, "job")} saved`);
    },
  });
}

// A spreadsheet must not read a text as a formula.
function cell(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function save(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const anchor = Object.assign(document.createElement("a"), { href: address, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
