// A resource of the API as a hook: it is read, read again every so many seconds while the tab is seen, and kept while the server is away.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api.js";
import { visible } from "./live.js";

const RETRY = 3000;
const EMPTY = { data: null, problem: null, loading: true };

// Reads now, and again so many seconds after the last read ended; returns a function that ends it.
export function repeat(read, seconds) {
  let timer = 0;
  let ended = false;
  const run = async () => {
    await read(seconds);
    if (!ended) timer = setTimeout(run, seconds * 1000);
  };
  run();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

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
    const load = async (age = 0) => {
      clearTimeout(timer);
      if (busy || ended) return;
      busy = true;
      let wait = every * 1000;
      try {
        const data = await get(path, { signal: controller.signal, age });
        if (!ended) set({ data, problem: null, loading: false });
      } catch (problem) {
        if (ended || problem.name === "AbortError") return;
        // A lost server keeps what is shown; a refusal replaces it.
        set((old) => ({ data: problem.status === 0 || problem.status >= 500 ? old.data : null, problem, loading: false }));
        wait = problem.status === 0 || problem.status >= 429 ? RETRY : every * 1000;
      } finally {
        busy = false;
      }
      if (wait && !ended) timer = setTimeout(() => !document.hidden && load(every), wait);
    };
    run.current = () => load();
    load(every);
    const woken = visible.subscribe((seen) => {
      if (seen && !busy && every) load(every);
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
