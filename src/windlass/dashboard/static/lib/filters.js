// The filter as its terms, and what completes the one that is typed. The grammar itself is the server's.
export const KEYS = [
  ["state", "state:failed,cancelled"],
  ["kind", "kind:report*"],
  ["phase", "phase:render"],
  ["age", "age:<1h"],
  ["created", "created:>=2026-01-31"],
  ["finished", "finished:<2026-01-31"],
  ["error", "error:timeout"],
  ["exception", "exception:ValueError"],
  ["principal", "principal:anna"],
  ["tenant", "tenant:acme"],
  ["correlation", "correlation:order-7"],
  ["key", "key:invoice-1"],
  ["batch", "batch:ID"],
  ["instance", "instance:ID"],
  ["attempt", "attempt:>1"],
  ["priority", "priority:>=5"],
  ["id", "id:ID"],
  ["args", "args.county:Harju"],
];
const STATES = ["waiting", "scheduled", "queued", "processing", "completed", "failed", "cancelled"];
const AGES = ["<5m", "<1h", "<12h", "<24h", "<7d", ">1h", ">24h"];

// A filter as its terms: split at spaces that are outside quotes.
export function split(text) {
  const found = [];
  let term = "";
  let quoted = false;
  for (let i = 0; i < text.length; i += 1) {
    const sign = text[i];
    if (sign === "\\" && quoted) {
      term += sign + (text[(i += 1)] ?? "");
      continue;
    }
    if (sign === '"') quoted = !quoted;
    if (/\s/.test(sign) && !quoted) {
      if (term) found.push(term);
      term = "";
    } else term += sign;
  }
  if (term) found.push(term);
  return found;
}

export const isWhole = (term) => /^-?[\w.[\]"-]+:(?:[<>]=?)?[^\s]/.test(term) && (term.match(/(?<!\\)"/g)?.length ?? 0) % 2 === 0;

// What may follow what was typed: keys first, then the values of the key, with their counts.
export function completions(typed, facts) {
  const minus = typed.startsWith("-") ? "-" : "";
  const text = typed.slice(minus.length);
  const colon = text.indexOf(":");
  if (colon < 0) {
    const wanted = text.toLowerCase();
    return {
      title: "Keys",
      items: KEYS.filter(([key]) => key.startsWith(wanted)).map(([key, example]) => ({ text: `${minus}${key}${key === "args" ? "." : ":"}`, note: example, goesOn: true, at: minus.length, length: wanted.length })),
    };
  }
  const key = text.slice(0, colon);
  const value = text.slice(colon + 1).toLowerCase();
  const values = { state: STATES.map((name) => [name, facts.states?.[name]]), phase: facts.phases, kind: facts.kinds, age: AGES.map((name) => [name, null]), exception: facts.exceptions, instance: facts.instances }[key] ?? [];
  const items = values
    .filter(([name, note]) => `${name} ${note ?? ""}`.toLowerCase().includes(value))
    .slice(0, 9)
    .map(([name, note]) => {
      const found = String(name).toLowerCase().indexOf(value);
      return { text: `${minus}${key}:${/^[\w.@/+<>=-]+$/.test(name) ? name : `"${name}"`}`, note, at: minus.length + key.length + 1 + Math.max(0, found), length: found < 0 ? 0 : value.length };
    });
  return { title: `Values of ${key}`, items };
}
