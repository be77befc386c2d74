// Numbers, times and names as text. Every function takes what the API sends and returns a short text.
const THIN = "\u202f";

export function number(value) {
  if (value === null || value === undefined) return "–";
  const rounded = Math.abs(value) >= 100 || Number.isInteger(value) ? Math.round(value) : Math.round(value * 10) / 10;
  const [whole, part] = String(Math.abs(rounded)).split(".");
  const grouped = whole.length > 3 ? whole.replace(/\B(?=(\d{3})+$)/g, THIN) : whole;
  return `${rounded < 0 ? "−" : ""}${grouped}${part ? `.${part}` : ""}`;
}

export function capped(count) {
  if (!count) return "";
  return count.exact ? number(count.count) : `${number(count.count)}+`;
}

export function many(count, one, more = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : more}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const s = Math.max(0, seconds);
  if (s < 0.001) return `0${THIN}s`;
  if (s < 1) return `${Math.round(s * 1000)}${THIN}ms`;
  if (s < 9.95) return `${Math.round(s * 10) / 10}${THIN}s`;
  if (s < 59.5) return `${Math.round(s)}${THIN}s`;
  const whole = Math.round(s);
  if (whole < 600) return `${Math.floor(whole / 60)}m ${String(whole % 60).padStart(2, "0")}s`;
  if (whole < 3600) return `${Math.round(whole / 60)}${THIN}min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}m`;
  if (whole < 10 * 86400) return `${Math.floor(whole / 86400)}d ${Math.floor((whole % 86400) / 3600)}h`;
  return `${number(Math.floor(whole / 86400))}${THIN}d`;
}

export const milliseconds = (value) => (value === null || value === undefined ? "–" : duration(value / 1000));

export function between(from, to) {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

const two = (value) => String(value).padStart(2, "0");

export function time(moment, withSeconds = false) {
  const at = moment instanceof Date ? moment : new Date(moment);
  return `${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ""}`;
}

export function day(moment) {
  const at = moment instanceof Date ? moment : new Date(moment);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

export function full(moment) {
  if (!moment) return "";
  const at = new Date(moment);
  const zone = -at.getTimezoneOffset();
  const sign = zone < 0 ? "−" : "+";
  return `${day(at)} ${time(at, true)} UTC${zone ? `${sign}${two(Math.floor(Math.abs(zone) / 60))}:${two(Math.abs(zone) % 60)}` : ""}`;
}

// A time of today as hours and minutes, any other with its day.
export function shortTime(moment, now) {
  return day(moment) === day(new Date(now)) ? time(moment) : `${day(moment).slice(5)} ${time(moment)}`;
}

export const shortId = (id) => (id ? `…${id.slice(-6)}` : "");

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) [size, unit] = [size / 1000, unit + 1];
  return `${number(unit ? Math.round(size * 10) / 10 : size)}${THIN}${units[unit]}`;
}

export function percent(share) {
  return `${Math.round(share * 100)}${THIN}%`;
}

// Cron expressions that can be said in words; others stay as they are.
export function schedule(expression) {
  const every = /^\*\/(\d+) \* \* \* \*$/.exec(expression);
  if (every) return `every ${every[1]} minutes`;
  const daily = /^(\d+) (\d+) \* \* (\*|1-5|MON-FRI)$/i.exec(expression);
  if (daily) return `${daily[3] === "*" ? "every day" : "weekdays"} at ${two(daily[2])}:${two(daily[1])}`;
  if (expression === "0 * * * *") return "every hour";
  if (expression === "* * * * *") return "every minute";
  return expression;
}
