// A resource of the API as a hook: it is read, read again every so many seconds while the tab is seen, and kept while the server is away.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api.js";
import { visible } from "./live.js";

const RETRY = 3000;
const EMPTY = { data: null, problem: null, loading: true };

export function useResource(path, { every = 0, keep = false, again = null } = {}) {
  const [state, set] = useState(EMPTY);
  const run = useRef(null);
  useEffect(() => {
    if (!path) {
      set({ ...EMPTY, loading: false });
      return undefined;
    }
    let timer = 0;
    let ended = false;
    let busy = false;
    const controller = new AbortController();
    set((old) => (keep ? { ...old, loading: true } : EMPTY));
    const load = async () => {
      clearTimeout(timer);
      if (busy || ended) return;
      busy = true;
      let wait = every * 1000;
      try {
        const data = await get(path, { signal: controller.signal });
        if (!ended) set({ data, problem: null, loading: false });
      } catch (problem) {
        if (ended || problem.name === "AbortError") return;
        // A lost server keeps what is shown; a refusal replaces it.
        set((old) => ({ data: problem.status === 0 || problem.status >= 500 ? old.data : null, problem, loading: false }));
        wait = problem.status === 0 || problem.status >= 429 ? RETRY : every * 1000;
      } finally {
        busy = false;
      }
      if (wait && !ended) timer = setTimeout(() => !document.hidden && load(), wait);
    };
    run.current = load;
    load();
    const woken = visible.subscribe((seen) => {
      if (seen && !busy && every) load();
    });
    return () => {
      ended = true;
      clearTimeout(timer);
      controller.abort();
      woken();
    };
  }, [path, every]);
  useEffect(() => {
    if (again !== null && run.current) run.current();
  }, [again]);
  return { ...state, reload: () => run.current?.() };
}
