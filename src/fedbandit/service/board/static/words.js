// Numbers, times and elements as people read them.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: el("p", {class: "x"}, "text", child). Text is never read as HTML. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Make an element of SVG. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A number with three significant digits, whole ones with separators. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.0005 || size >= 1e15)) return value.toExponential(1).replace("e+", "e");
  if (Number.isInteger(value) || size >= 1000) return Math.round(value).toLocaleString("en");
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A count in few characters: 12,345 or 1.23 million. */
export function count(value) {
  if (value >= 1e9) return `${(value / 1e9).toFixed(2)} billion`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)} million`;
  return Math.round(value).toLocaleString("en");
}

/** Bytes in the unit that suits them. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let size = Math.abs(value), unit = 0;
  while (size >= 1000 && unit < units.length - 1) { size /= 1000; unit += 1; }
  const digits = unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)} ${units[unit]}`;
}

/** A share in percent. */
export function percent(value, sign = false) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(100 * value);
  if (size > 0 && size < 0.005) return "less than 0.01 %";
  const digits = size >= 100 || size === 0 ? 0 : size >= 1 ? 1 : 2;
  const mark = value < 0 ? "−" : sign ? "+" : "";
  return `${mark}${size.toFixed(digits)} %`;
}

/** A difference with its sign. */
export function signed(value) {
  return `${value < 0 ? "−" : "+"}${number(Math.abs(value))}`;
}

/** How long ago something was: "12 seconds ago". */
export function ago(at, now) {
  if (!at) return "never";
  const seconds = Math.max(0, Math.round(now - at));
  for (const [size, word] of [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]]) {
    const whole = Math.floor(seconds / size);
    if (whole >= 1) return `${whole} ${word}${whole === 1 ? "" : "s"} ago`;
  }
  return "just now";
}

/** A length of time in words: "5 minutes". */
export function lasting(seconds) {
  for (const [size, word] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
    if (seconds >= size && seconds % size === 0) {
      return seconds === size ? word : `${seconds / size} ${word}s`;
    }
  }
  return `${seconds} seconds`;
}

/** A time of day, with the date if periods are long. */
export function clock(at, step) {
  const date = new Date(1000 * at);
  const day = date.toLocaleDateString("en", { day: "numeric", month: "short" });
  if (step >= 86400) return day;
  const time = date.toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false });
  return step >= 900 ? `${day}, ${time}` : time;
}
