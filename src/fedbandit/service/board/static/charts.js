// Charts in SVG: lines or bars over time, bars of a spectrum. Every chart has a table beside it.
import { clock, el, number, svg } from "./words.js";

const HEIGHT = 190, LEFT = 8, RIGHT = 8, TOP = 26, BOTTOM = 24;

/**
 * A figure over time.
 *   t: starts of periods, step: their length in seconds
 *   series: [{name, values, kind: "line" | "bar" | "level", tone, dashed}]
 *   format: how a value is written; zero: whether the axis begins at 0
 */
export function chart({ title, note, t, step, series, format = number, zero = false, empty }) {
  const figure = el("figure", { class: "chart" }, el("figcaption", {}, el("h3", {}, title), note ? el("p", {}, note) : null));
  const known = series.some((each) => each.values.some((value) => value !== null && value !== 0));
  if (!known) {
    figure.append(el("p", { class: "nothing" }, empty || "Nothing to show in this range yet."));
    return figure;
  }
  const plot = el("div", { class: "plot" });
  figure.append(legend(series), plot, asTable(title, t, step, series, format));
  const draw = () => drawn(plot, { title, t, step, series, format, zero });
  let width = 0;
  new ResizeObserver(() => {
    if (Math.round(plot.clientWidth) !== width) { width = Math.round(plot.clientWidth); draw(); }
  }).observe(plot);
  return figure;
}

function legend(series) {
  if (series.length < 2) return "";
  return el("ul", { class: "legend" }, series.map((each) =>
    el("li", {}, el("span", { class: `swatch ${each.tone}${each.dashed ? " dashed" : ""}` }), each.name)));
}

function drawn(plot, { title, t, step, series, format, zero }) {
  const width = Math.max(plot.clientWidth, 200), inner = width - LEFT - RIGHT;
  const stack = series.filter((each) => each.kind === "bar"), bars = stack.length > 0;
  const lines = series.filter((each) => each.kind !== "bar");
  const heights = bars ? t.map((_, i) => stack.reduce((sum, each) => sum + (each.values[i] ?? 0), 0)) : [];
  const values = [...heights, ...lines.flatMap((each) => each.values.filter((value) => value !== null))];
  const [low, high] = bounds(values, zero || bars);
  const slots = bars ? t.length : Math.max(t.length - 1, 1);
  const x = (i) => LEFT + (inner * (i + (bars ? 0.5 : t.length === 1 ? 0.5 : 0))) / slots;
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low));
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": told(title, t, step, series, format) });
  for (const value of [low, (low + high) / 2, high]) {
    root.append(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
  }
  const floors = t.map(() => 0);
  for (const each of stack) root.append(barsOf(each, floors, x, y, inner / slots));
  for (const each of lines) root.append(...lineOf(each, x, y));
  for (const value of bars ? [high] : low === 0 ? [high / 2, high] : [low, (low + high) / 2, high]) {
    root.append(svg("text", { class: "axis", x: LEFT, y: y(value) - 5 }, format(value)));
  }
  root.append(...times(t, step, x, width));
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  root.append(cursor);
  const read = el("p", { class: "readout", hidden: true });
  plot.replaceChildren(root, read);
  const point = (event) => {
    const place = (event.clientX - root.getBoundingClientRect().left - LEFT) / inner;
    const i = Math.min(t.length - 1, Math.max(0, bars ? Math.floor(place * slots) : Math.round(place * slots)));
    cursor.setAttribute("x1", x(i)); cursor.setAttribute("x2", x(i)); cursor.setAttribute("visibility", "visible");
    read.hidden = false;
    read.classList.toggle("right", x(i) < width / 2);
    read.replaceChildren(el("b", {}, clock(t[i], step)), ...series.map((each) =>
      el("span", {}, series.length > 1 ? `${each.name} ` : "", el("b", {}, each.values[i] === null ? "–" : format(each.values[i])))));
  };
  root.addEventListener("pointermove", point);
  root.addEventListener("pointerdown", point);
  root.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); read.hidden = true; });
}

function bounds(values, zero) {
  let low = Math.min(...values), high = Math.max(...values);
  if (zero) low = Math.min(low, 0);
  if (low === high) { const room = Math.abs(low) || 1; return zero ? [Math.min(0, low), low + room] : [low - room / 2, high + room / 2]; }
  const range = high - low;  // below a line is room for the number of the lowest rule
  return [zero && low === 0 ? 0 : low - 0.18 * range, high + 0.06 * range];
}

function lineOf(each, x, y) {
  let path = "", open = false;
  const points = [];
  each.values.forEach((value, i) => {
    if (value === null) { open = false; return; }
    const alone = !open && (each.values[i + 1] ?? null) === null;
    if (alone) points.push(svg("circle", { class: `point ${each.tone}`, cx: x(i), cy: y(value), r: 3 }));
    path += `${open ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    open = true;
  });
  return [svg("path", { class: `line ${each.tone}${each.dashed ? " dashed" : ""}`, d: path || "M0 0" }), ...points];
}

/** Bars of one series on top of those before it; raises the floors for the next. */
function barsOf(each, floors, x, y, slot) {
  const wide = Math.max(1, slot * 0.8);
  return svg("g", { class: `bars ${each.tone}` }, each.values.map((value, i) => {
    if (!value) return null;
    const bottom = y(floors[i]), top = y(floors[i] += value);
    return svg("rect", { x: (x(i) - wide / 2).toFixed(2), y: top.toFixed(2), width: wide.toFixed(2), height: Math.max(1, bottom - top).toFixed(2) });
  }));
}

function times(t, step, x, width) {
  const last = t.length - 1, uneven = last < 8 && last % 2 === 1;
  const places = last < 2 || width < 300 || uneven ? [0, last] : [0, Math.floor(last / 2), last];
  return [...new Set(places)].map((i, k) => svg("text", {
    class: "axis", x: x(i), y: HEIGHT - 6,
    "text-anchor": x(i) > 40 && x(i) < width - 40 ? "middle" : k === 0 ? "start" : "end",
  }, clock(t[i], step)));
}

/** What a chart shows, for those who do not see it. */
function told(title, t, step, series, format) {
  const parts = series.filter((each) => each.kind !== "level").map((each) => {
    const known = each.values.map((value, i) => [value, i]).filter(([value]) => value !== null);
    if (!known.length) return `${each.name}: no values`;
    const [first, last] = [known[0], known[known.length - 1]];
    const most = Math.max(...known.map(([value]) => value)), least = Math.min(...known.map(([value]) => value));
    return `${each.name}: ${format(first[0])} at first, ${format(last[0])} at last, from ${format(least)} to ${format(most)}`;
  });
  return `${title}, ${clock(t[0], step)} to ${clock(t[t.length - 1], step)}. ${parts.join(". ")}. The table below has all values.`;
}

function asTable(title, t, step, series, format) {
  const details = el("details", { class: "data", "data-keep": `table ${title}` }, el("summary", {}, "Show as a table"));
  const fill = () => {
    if (!details.open || details.children.length > 1) return;
    const rows = t.map((at, i) => el("tr", {}, el("th", { scope: "row" }, clock(at, step)),
      series.map((each) => el("td", {}, each.values[i] === null ? "–" : format(each.values[i]))))).reverse();
    const head = el("tr", {}, el("th", { scope: "col" }, "From"), series.map((each) => el("th", { scope: "col" }, each.name)));
    details.append(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, all values` },
      el("table", {}, el("thead", {}, head), el("tbody", {}, rows))));
  };
  details.addEventListener("toggle", fill);
  return details;
}

/** The spectrum: a bar for each direction, by size, with the line of what was shed. */
export function spectrum({ title, note, values, shed, format = number, empty }) {
  const figure = el("figure", { class: "chart" }, el("figcaption", {}, el("h3", {}, title), el("p", {}, note)));
  const shown = values.filter((value) => value > 0);
  if (!shown.length) { figure.append(el("p", { class: "nothing" }, empty)); return figure; }
  const plot = el("div", { class: "plot" });
  const top = Math.log10(Math.max(...shown, shed) * 1.3), bottom = Math.log10(Math.min(...shown, shed > 0 ? shed : Infinity) / 1.6);
  const draw = () => {
    const width = Math.max(plot.clientWidth, 200), inner = width - LEFT - RIGHT, slot = inner / shown.length;
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (Math.log10(value) - bottom) / (top - bottom));
    const label = `${title}. ${shown.length} directions, the largest ${format(shown[0])}, the smallest ${format(shown[shown.length - 1])}; any direction may lack ${format(shed)} at most.`;
    const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label });
    shown.forEach((value, i) => root.append(svg("rect", { class: "bars one", x: (LEFT + i * slot + slot * 0.1).toFixed(2), width: Math.max(1, slot * 0.8).toFixed(2), y: y(value).toFixed(2), height: Math.max(1, HEIGHT - BOTTOM - y(value)).toFixed(2) })));
    if (shed > 0) root.append(svg("line", { class: "line bad dashed", x1: LEFT, x2: width - RIGHT, y1: y(shed), y2: y(shed) }),
      svg("text", { class: "axis bad", x: width - RIGHT, y: y(shed) - 5, "text-anchor": "end" }, `shed: ${format(shed)}`));
    root.append(svg("text", { class: "axis", x: LEFT, y: TOP - 10 }, `${format(shown[0])} (logarithmic)`),
      svg("text", { class: "axis", x: LEFT, y: HEIGHT - 6 }, "largest"), svg("text", { class: "axis", x: width - RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, "smallest"));
    plot.replaceChildren(root);
  };
  new ResizeObserver(draw).observe(plot);
  figure.append(plot);
  return figure;
}

/** Intervals beside each other, a row each, with a line at 0: [{name, gain, gain_low, gain_high, strong}]. */
export function intervals({ title, note, rows, format = number }) {
  const figure = el("figure", { class: "chart plain" }, el("figcaption", {}, el("h3", {}, title), el("p", {}, note)));
  const plot = el("div", { class: "plot short" }), tall = 26, height = TOP + tall * rows.length + BOTTOM;
  const ends = rows.flatMap((each) => [each.gain_low, each.gain_high]), [low, high] = bounds([0, ...ends], false);
  const draw = () => {
    const width = Math.max(plot.clientWidth, 200), left = Math.min(180, Math.round(width * 0.32)), inner = width - left - RIGHT;
    const x = (value) => left + (inner * (value - low)) / (high - low);
    const label = `${title}. ${rows.map((each) => `${each.name}: ${format(each.gain)}, from ${format(each.gain_low)} to ${format(each.gain_high)}`).join(". ")}. The table below has all values.`;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
    root.append(svg("line", { class: "zero", x1: x(0), x2: x(0), y1: TOP - 8, y2: height - BOTTOM }));
    rows.forEach((each, i) => {
      const y = TOP + tall * (i + 0.5), tone = each.strong ? "two" : "one";
      root.append(svg("text", { class: each.strong ? "axis strong" : "axis", x: 0, y: y + 4 }, shortened(each.name, left / 7)),
        svg("line", { class: `line ${tone}`, x1: x(each.gain_low), x2: x(each.gain_high), y1: y, y2: y }),
        svg("circle", { class: `point ${tone}`, cx: x(each.gain), cy: y, r: each.strong ? 6 : 4.5 }));
    });
    root.append(...[[low, "start"], [0, "middle"], [high, "end"]].filter(([value]) => value === 0 || Math.abs(x(value) - x(0)) > 60)
      .map(([value, anchor]) => svg("text", { class: "axis", x: x(value), y: height - 6, "text-anchor": anchor }, format(value))));
    plot.replaceChildren(root);
  };
  new ResizeObserver(draw).observe(plot);
  figure.append(plot);
  return figure;
}

function shortened(words, most) {
  return words.length <= most ? words : `${words.slice(0, Math.max(1, Math.floor(most) - 1))}…`;
}

/** A small line without axes. */
export function spark(values, label) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return el("span", { class: "spark" });
  const [low, high] = bounds(known, false), wide = 120, tall = 32;
  const root = svg("svg", { class: "spark", viewBox: `0 0 ${wide} ${tall}`, width: wide, height: tall, role: "img", "aria-label": label });
  root.append(...lineOf({ values, tone: "one" }, (i) => 2 + ((wide - 4) * i) / Math.max(values.length - 1, 1), (value) => 2 + (tall - 4) * (1 - (value - low) / (high - low))));
  return root;
}
