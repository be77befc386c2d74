// How many groups of failures the last hour has, for the bar.
import { effect, signal } from "@preact/signals";
import { get } from "./api.js";
import { session } from "./session.js";
import { visible } from "./live.js";

export const failing = signal(0);

export function startFailing() {
  const read = async () => {
    try {
      failing.value = (await get("/v1/failures")).groups.filter((group) => group.hour > 0).length;
    } catch {
      // no right to see them, or no server: no number
    }
  };
  effect(() => {
    if (!session.value || !visible.value) return undefined;
    read();
    const timer = setInterval(read, 15000);
    return () => clearInterval(timer);
  });
}
