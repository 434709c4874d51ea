// The board: listens to the coordinator and shows what it says. It changes nothing there.
import { chart, intervals, spark, spectrum } from "./charts.js";
import { ago, bytes, clock, count, el, lasting, number, percent, signed } from "./words.js";

const RANGES = [["hour", "Last hour"], ["day", "Last day"], ["month", "Last month"], ["all", "All time"]];
const SILENCE = 25_000; // milliseconds; the coordinator says something every ten seconds
const main = document.getElementById("main"), alarm = document.getElementById("alarm");
let source = null, timer = null, wait = 1000, lostAt = null, heard = 0, skew = 0, place = null, view = null;

const now = () => Date.now() / 1000 + skew;

// Where we are is in the address after the #: nothing, or model=NAME&range=RANGE.
function placed() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const range = RANGES.some(([key]) => key === asked.get("range")) ? asked.get("range") : "day";
  return { model: asked.get("model"), range };
}

function address(model, range) {
  return `#model=${encodeURIComponent(model)}&range=${range}`;
}

function go() {
  const before = place;
  place = placed();
  if (!before || before.model !== place.model) {
    main.replaceChildren(el("p", { class: "loading" }, "Reading the store…"));
    window.scrollTo(0, 0);
    if (before) main.focus();
  }
  listen();
}

function listen() {
  clearTimeout(timer);
  source?.close();
  const query = place.model ? `?model=${encodeURIComponent(place.model)}&range=${place.range}` : "";
  const mine = source = new EventSource(`/board/events${query}`);
  heard = Date.now();
  const hear = () => { heard = Date.now(); wait = 1000; connected(); };
  mine.addEventListener("view", (event) => {
    if (mine !== source) return;
    hear();
    const told = JSON.parse(event.data);
    skew = told.now - Date.now() / 1000;
    view = told.view;
    show();
  });
  mine.addEventListener("same", hear);
  mine.addEventListener("trouble", (event) => { if (mine === source) failed(Number(event.data)); });
  mine.onerror = () => { if (mine === source) explain(); };
}

/** Find out why the stream ended: no session, no such model, or no coordinator. */
async function explain() {
  source.close();
  try {
    const url = place.model ? `/board/models/${encodeURIComponent(place.model)}?range=${place.range}` : "/board/models";
    const answer = await fetch(url, { cache: "no-store" });
    failed(answer.ok ? 0 : answer.status);
  } catch {
    failed(0);
  }
}

function failed(status) {
  source.close();
  if (status === 401) {
    state("away", "Signed out");
    say("Your session has ended.", el("a", { href: "/" }, "Sign in again"));
    return;
  }
  if (status === 404) {
    connected();
    main.replaceChildren(el("section", { class: "empty" }, el("h1", {}, "No such model"),
      el("p", {}, `There is no model named “${place.model}” in this store any more.`), el("p", {}, el("a", { href: "#" }, "Show all models"))));
    return;
  }
  lostAt ??= Date.now() / 1000;
  state("lost", "Connection lost");
  const since = clock(lostAt, 60);
  say(status ? `The coordinator cannot answer for now (${status}).` : "The coordinator does not answer.",
    `What you see is from ${since}. Agents go on deciding with what they hold, and deliver later. Trying again…`);
  main.classList.add("old");
  timer = setTimeout(listen, wait);
  wait = Math.min(wait * 1.7, 8000);
}

function connected() {
  lostAt = null;
  state("live", "Live");
  alarm.hidden = true;
  main.classList.remove("old");
}

function state(name, words) {
  const link = document.getElementById("link");
  if (link.dataset.state !== name) { link.dataset.state = name; document.getElementById("link-words").textContent = words; }
}

function say(...words) {
  alarm.hidden = false;
  const told = words.map((word) => el("span", {}, word));
  if (alarm.textContent !== words.map((word) => word.textContent ?? word).join("")) alarm.replaceChildren(...told);
}

setInterval(() => {
  for (const each of document.querySelectorAll("[data-ago]")) each.textContent = ago(Number(each.dataset.ago), now());
  if (source?.readyState === EventSource.OPEN && Date.now() - heard > SILENCE) failed(0);
}, 1000);

function since(at) {
  return at ? el("time", { "data-ago": at }, ago(at, now())) : "never";
}

// What is open or focused stays so when everything is drawn again.
function show() {
  const open = [...main.querySelectorAll("details[open]")].map((each) => each.dataset.keep);
  const focused = document.activeElement?.id;
  main.replaceChildren(...(place.model ? modelPage(view) : overview(view)));
  for (const each of main.querySelectorAll("details")) if (open.includes(each.dataset.keep)) each.open = true;
  if (focused && main.contains(document.getElementById(focused))) document.getElementById(focused).focus({ preventScroll: true });
  document.title = place.model ? `${view.name} · fedbandit` : "fedbandit";
}

function overview(models) {
  if (!models.length) {
    return [el("section", { class: "empty" }, el("h1", {}, "No models yet"),
      el("p", {}, "A model is what agents learn together. Create one in the store that this coordinator serves; this page shows it at once:"),
      el("pre", {}, el("code", {}, "fedbandit model create news --dimension 100 --store STORE")))];
  }
  return [el("h1", {}, "Models"), el("ul", { class: "cards" }, models.map(card))];
}

function card(model) {
  const best = model.lately?.average ?? model.average;
  return el("li", { class: "card" },
    el("h2", {}, el("a", { id: `card-${model.name}`, href: address(model.name, "day") }, model.name)),
    best === null ? null : el("p", { class: "figure" }, el("b", {}, number(best)), ` average reward${model.lately ? `, ${model.lately.label}` : ""}`),
    el("div", { class: "row" }, trend(model), spark(model.line.average, `Average reward of ${model.name} over time`)),
    el("p", { class: "small" }, ...(model.agents ? [`${count(model.observations)} observations of ${count(model.agents)} agent${model.agents === 1 ? "" : "s"}; last sync `, since(model.seen)] : ["Waiting for the first upload"])));
}

function trend(model) {
  const { verdict, early } = model;
  if (!verdict) return el("p", { class: "trend" }, model.average === null ? "No rewards yet" : "Too early for a trend");
  const size = verdict.share === null ? signed(verdict.change) : percent(verdict.share, true);
  if (!verdict.clear) return el("p", { class: "trend" }, `${size} against its ${early.label}: no clear change`);
  const up = verdict.change > 0;
  return el("p", { class: `trend ${up ? "good" : "bad"}` }, `${up ? "▲" : "▼"} ${size} against its ${early.label}`);
}

function modelPage(model) {
  const back = el("p", { class: "back" }, el("a", { id: "back", href: "#" }, "All models"));
  const title = el("h1", {}, model.name);
  const what = el("p", { class: "small" }, `${model.recipe}, ${model.dimension} dimensions, created ${new Date(1000 * model.created).toLocaleDateString("en", { dateStyle: "medium" })}`);
  if (!model.version) {
    return [el("div", {}, back, title, what), el("section", { class: "empty" }, el("h2", {}, "Waiting for the first upload"),
      el("p", {}, "Give each agent a token of its own, and connect it:"),
      el("pre", {}, el("code", {}, `fedbandit token create ${model.name} AGENT --store STORE`)),
      el("pre", {}, el("code", {}, `fedbandit.connect("${location.origin}", model="${model.name}", agent="AGENT", token="...")`)),
      el("p", {}, "An agent uploads once it has learned enough to be worth sending. This page shows it within seconds."), model.refusals.length ? refusals(model) : null)];
  }
  return [el("div", { class: "title" }, el("div", {}, back, title, what), ranges()),
    hero(model), ...doubts(model), tiles(model), ...shadow(model), charts(model), agents(model), refusals(model)];
}

function ranges() {
  return el("nav", { class: "ranges", "aria-label": "Range of the charts" }, RANGES.map(([key, words]) =>
    el("a", { id: `range-${key}`, href: address(place.model, key), "aria-current": key === place.range ? "true" : null }, words)));
}

function hero(model) {
  const { lately, points } = model;
  const best = lately?.average ?? model.average;
  const label = lately ? `average reward, ${lately.label}` : "average reward so far";
  return el("section", { class: "hero", "aria-label": "Is it working?" },
    el("div", { class: "big" }, el("p", { class: "figure" }, el("b", {}, number(best)), el("span", {}, label)), trend(model), ...sentences(model)),
    chart({
      title: "Average reward", note: `One point for each ${lasting(points.step)}.`, t: points.t, step: points.step,
      series: [
        { name: "Rewards", values: points.average, tone: "one" },
        { name: "The model's own estimate", values: points.estimate, tone: "two", dashed: true },
        ...(model.early ? [{ name: model.early.label.replace(/^./, (c) => c.toUpperCase()), values: points.t.map(() => model.early.average), tone: "faint", kind: "level" }] : []),
      ],
      empty: "No agent has told of rewards in this range.",
    }));
}

function sentences(model) {
  const { early, lately, verdict } = model;
  const told = [];
  if (verdict) told.push(`It was ${number(early.average)} in the ${early.label}; the change is ${signed(verdict.change)} ± ${number(2 * verdict.error)}.`);
  if (lately?.estimate !== null && lately) {
    const gap = lately.estimate - lately.earned;
    const word = Math.abs(gap) <= 0.02 * Math.max(Math.abs(lately.earned), 1e-12) ? "about what it estimated" : gap > 0 ? "less than it estimated" : "more than it estimated";
    told.push(`For its own choices the model estimated ${number(lately.estimate)} and got ${number(lately.earned)}: ${word}.`);
  } else if (model.average !== null && !lately) {
    told.push("What it estimated for its own choices is compared once there are a few minutes of rewards.");
  } else if (model.average !== null) {
    told.push("Agents of this version do not tell what they estimated; newer ones do.");
  } else {
    told.push("The agents that uploaded so far speak format 1, which does not tell of rewards. Upgrade them to see averages.");
  }
  return told.map((words) => el("p", {}, words));
}

function tiles(model) {
  const { totals } = model;
  const tile = (name, value, more) => el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, el("b", {}, value), el("span", {}, more)));
  return el("dl", { class: "tiles" },
    tile("Observations", count(model.observations), `${count(totals.uploads)} uploads${totals.uploads < model.version ? " since the board keeps count" : ""}`),
    tile("Agents", count(model.agents), ["last sync ", since(model.seen)]),
    tile("Sent", bytes(totals.received + totals.sent), `${bytes(totals.received)} up, ${bytes(totals.sent)} down`),
    tile(totals.saved >= 0 ? "Saved against FedLinUCB" : "More than FedLinUCB", bytes(Math.abs(totals.saved)),
      totals.times ? `it sends ${number(totals.times)} times as much in as many syncs` : "told after the first sync"),
    tile("Prediction error", number(model.lately?.error), explained(model)),
    tile("Refused uploads", count(totals.refused), totals.refused ? "the reasons are below" : "none so far"));
}

function explained({ lately }) {
  if (!lately) return "told once there are a few minutes of rewards";
  if (lately.error === null || !lately.deviation) return "told once agents tell what they estimate";
  const share = 1 - (lately.error / lately.deviation) ** 2;
  return share > 0 ? `explains ${percent(share)} of the variation of rewards` : "so far no better than guessing the average";
}

function charts(model) {
  const { points, theta, lately } = model;
  const base = { t: points.t, step: points.step }, each = `each ${lasting(points.step)}`;
  const hour = theta.length > 0 ? theta.hour / theta.length : null;
  return el("section", { class: "charts", "aria-label": "Charts" },
    chart({ ...base, title: "Prediction error", zero: true,
      note: "Root mean square of reward less estimate, made just before each reward was learned. It rises when the world drifts.",
      series: [{ name: "Error", values: points.error, tone: "one" },
        ...(lately?.deviation ? [{ name: "Always guessing the average", values: points.t.map(() => lately.deviation), tone: "faint", kind: "level" }] : [])],
      empty: "No agent has told what it estimated in this range." }),
    chart({ ...base, title: "Movement of theta", zero: true, note: `How far the estimate went, ${each}, looked at once a minute. `
        + (hour === null ? "" : `In the last hour: ${percent(hour)} of its length.`),
      series: [{ name: "Distance", values: points.moved, tone: "one", kind: "bar" }], empty: "The estimate has not moved in this range." }),
    chart({ ...base, title: "Observations", note: `${each.replace("e", "E")}.`, format: count,
      series: [{ name: "Observations", values: points.observations, tone: "one", kind: "bar" }] }),
    chart({ ...base, title: "Uploads", note: `${each.replace("e", "E")}; refused ones were not merged.`, format: count,
      series: [{ name: "Merged", values: points.uploads, tone: "one", kind: "bar" }, { name: "Refused", values: points.refused, tone: "bad", kind: "bar" }] }),
    chart({ ...base, title: "Bytes", note: `Bodies of syncs and joins, ${each}.`, format: bytes,
      series: [{ name: "Up, from agents", values: points.received, tone: "one", kind: "bar" }, { name: "Down, to agents", values: points.sent, tone: "two", kind: "bar" }] }),
    spectrum({ title: "Spectrum", values: model.spectrum.values, shed: model.spectrum.shed, note: spectrumNote(model.spectrum),
      empty: "This matrix is too large to be taken apart while you wait." }));
}

function spectrumNote({ kind, lost, shed, directions }) {
  const held = `How much was observed along each of ${count(directions)} directions that the ${kind} holds.`;
  if (!shed && !lost) return `${held} Nothing was shed.`;
  const share = lost === null ? "" : `, ${percent(lost)} of everything together`;
  return `${held} To stay small it has shed at most ${number(shed)} along any direction${share}.`;
}

/** Groups of agents that contradict the others, or have far more mass than they, and count less for it. */
function doubts({ doubted }) {
  if (!doubted?.length) return [];
  const whom = (agents) => agents.slice(0, 20).join(", ") + (agents.length > 20 ? ` and ${count(agents.length - 20)} more` : "");
  const why = (each) => each.contradicts ? " does not fit the others" : ` has ${percent(each.share)} of all mass`;
  const line = (each) => el("li", {}, el("b", {}, `Group ${each.group}`), `${why(each)}, and ${each.weight < 0.01 ? "less than 1 %" : percent(each.weight)} of what it sent counts: ${whom(each.agents) || "a log, or what was merged before the groups were set"}`);
  return [el("section", { class: "wide", "aria-labelledby": "doubts" }, el("h2", { id: "doubts" }, "Agents that stand out"),
    el("p", { class: "trend bad" }, doubted.length === 1 ? "One group of agents stands out" : `${count(doubted.length)} groups of agents stand out`),
    el("p", { class: "small" }, "What they sent counts less in what agents are told, or not at all. They may lie, be broken, live in another world than the others, or do most of the work."),
    el("ul", {}, doubted.map(line)))];
}

/** How the model compares with the rule that decides in its place for now, where agents shadow one. */
function shadow({ shadow: told }) {
  if (!told) return [];
  const all = told.together, known = all.basis !== "none";
  const verdict = !known ? "Too little to tell yet" : all.safe ? "Safe to switch" : "Not safe to switch yet";
  const rows = [...(told.listed.length > 1 && known ? [{ name: "All together", ...all, strong: true }] : []),
    ...told.listed.filter((each) => each.believed && each.basis !== "none").slice(0, 12)];
  const fact = (name, value, more) => el("div", {}, el("dt", {}, name), el("dd", {}, el("b", {}, value), el("span", {}, more)));
  return [el("section", { class: "wide shadow", "aria-labelledby": "shadow" }, el("h2", { id: "shadow" }, "Shadow mode"),
    el("p", { class: `trend ${known ? (all.safe ? "good" : "bad") : ""}` }, verdict), el("p", { class: "small" }, told.sentence),
    el("dl", { class: "facts" },
      fact("Agrees with the rule", percent(all.rewarded ? all.agreement : null), `over ${count(all.rewarded)} rewarded decisions`),
      fact("The rule earned", number(all.rewarded ? all.baseline : null), "a decision"),
      fact("The model would have earned", known ? signed(all.gain) : "–", known ? `more a decision (${signed(all.gain_low)} to ${signed(all.gain_high)}, 95 %)` : "told from 100 rewarded decisions on"),
      fact("Safe on its own", `${count(told.safe)} of ${count(told.agents)}`, "agents")),
    rows.length ? intervals({ title: "Gain over the rule", note: "A dot for what the model would have earned more a decision, a line for its 95 % interval; right of 0 it would have earned more.", rows }) : null,
    shadowTable(told))];
}

function shadowTable(told) {
  const head = ["Agent", "Last sync", "Rewarded decisions", "Agrees", "Rule earned", "Gain", "95 % interval", "Says"];
  const says = (each) => (!each.believed ? "left out: not possible" : each.basis === "none" ? "too little" : each.safe ? "safe" : "not yet");
  const row = (each) => el("tr", {}, el("th", { scope: "row" }, each.name), el("td", {}, since(each.seen)), el("td", {}, count(each.rewarded)),
    el("td", {}, percent(each.agreement)), el("td", {}, number(each.baseline)), ...(each.basis === "none" ? [el("td", {}, "–"), el("td", {}, "–")]
      : [el("td", {}, signed(each.gain)), el("td", {}, `${signed(each.gain_low)} to ${signed(each.gain_high)}`)]), el("td", {}, says(each)));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Shadow mode by agent" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, told.listed.map(row))));
}

function agents(model) {
  const some = model.listed.length < model.agents ? `The ${model.listed.length} with most observations, of ${count(model.agents)}.` : "";
  const head = ["Agent", "Last sync", "Version held", "Average reward", "Observations", "Share of all", "Uploads", "Bytes up"];
  return el("section", { class: "wide", "aria-labelledby": "agents" }, el("h2", { id: "agents" }, "Agents"), some ? el("p", { class: "small" }, some) : null,
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": "agents" }, el("table", { class: "agents" },
      el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, model.listed.map(agent)))));
}

function agent(each) {
  const behind = each.behind === null ? "not known" : each.behind === 0 ? `${count(each.held)}, newest` : `${count(each.held)}, ${count(each.behind)} behind`;
  return el("tr", {}, el("th", { scope: "row" }, each.name, each.quarantined ? el("span", { class: "tag bad" }, "quarantined") : null),
    el("td", {}, since(each.seen)), el("td", {}, behind), el("td", {}, number(each.average)), el("td", {}, count(each.observations)),
    el("td", { class: "share" }, el("meter", { min: 0, max: 1, value: each.share, "aria-label": `Share of ${each.name}` }), percent(each.share)),
    el("td", {}, count(each.uploads)), el("td", {}, bytes(each.received)));
}

function refusals(model) {
  const section = el("section", { class: "wide", "aria-labelledby": "refused" }, el("h2", { id: "refused" }, "Refused uploads"));
  if (!model.refusals.length) { section.append(el("p", { class: "small" }, "No upload of this model was refused.")); return section; }
  const head = ["Reason", "How often", "Last time", "Last agent", "What was said"];
  section.append(el("p", { class: "small" }, "Nothing of a refused upload is merged. Agents keep those that are refused for good in their state directory, and send the others again."),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": "refused" }, el("table", {},
      el("thead", {}, el("tr", {}, head.map((name, i) => el("th", { scope: "col", class: i === 4 ? "words" : null }, name)))),
      el("tbody", {}, model.refusals.map((each) => el("tr", {}, el("th", { scope: "row" }, `${each.status} ${each.field}`), el("td", {}, count(each.count)),
        el("td", {}, since(each.at)), el("td", {}, each.agent), el("td", { class: "words" }, each.message)))))));
  return section;
}

if (document.documentElement.dataset.session === "open") document.getElementById("sign-out").remove();
window.addEventListener("hashchange", go);
document.addEventListener("visibilitychange", () => { if (!document.hidden && source?.readyState === EventSource.CLOSED && lostAt) listen(); });
go();
