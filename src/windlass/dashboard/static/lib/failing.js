// The groups of failures: how many the last hour has, for the bar, and the exceptions, for the completion of filters.
import { computed, effect, signal } from "@preact/signals";
import { get } from "./api.js";
import { repeat } from "./resource.js";
import { session } from "./session.js";
import { visible } from "./live.js";

const groups = signal([]);
export const failing = computed(() => groups.value.filter((group) => group.hour > 0).length);
// Each exception with the number of its failed jobs, the most frequent first.
export const exceptions = computed(() => {
  const sums = new Map();
  for (const { type, total } of groups.value) if (type) sums.set(type, (sums.get(type) ?? 0) + total);
  return [...sums].sort((a, b) => b[1] - a[1]);
});

export function startFailing() {
  const read = async (age) => {
    try {
      groups.value = (await get("/v1/failures", { age })).groups;
    } catch {
      // no right to see them, or no server: no number
    }
  };
  effect(() => {
    if (!session.value || !visible.value) return undefined;
    return repeat(read, 15);
  });
}
