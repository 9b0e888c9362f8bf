// Pages that refresh themselves: the figures of queries and streams, their rates, and sparklines of these. One small
// request every two seconds, while the page is visible. The rates of the minutes before come from the server.

const EVERY_MS = 2000;
const MISSED_MS = 4 * EVERY_MS; // the page was hidden, or the server did not answer
const POINTS = 120;
const WAITS_AFTER = 3; // readings: a query over two streams waits briefly for one of them all the time
const SVG = "http://www.w3.org/2000/svg";

export function figures(page) {
  const series = new Map(); // by the name of a row: its last rates
  const unmoved = new Map(); // by the name of a query that waits: its time, and for how many readings it has had it
  let before = null;
  let shownAt = 0;
  let asking = false;

  async function refresh() {
    if (document.hidden || asking) return;
    asking = true;
    try {
      const missed = !before || Date.now() - shownAt > MISSED_MS;
      const answer = await fetch(page.dataset.figures + (missed ? "?rates" : ""));
      if (answer.ok) show(await answer.json());
    } catch {
      page.classList.add("old"); // the server does not answer now; the next request may succeed
    } finally {
      asking = false;
    }
  }

  function show(found) {
    if (found.age_ms === null) return;
    page.classList.remove("old");
    shownAt = Date.now();
    if (found.rates) {
      before = null; // an average since then would be no rate of now
      recall(series, found.rates);
    }
    if (isAnotherList(page, found)) {
      reload(page);
      return;
    }
    const passed_s = before ? (found.at_ms - before.at_ms) / 1000 : 0;
    for (const kind of ["queries", "streams"]) {
      const name = kind === "queries" ? "query" : "stream";
      const earlier = new Map(before?.[kind].map((each) => [each[name], each]) ?? []);
      for (const each of found[kind]) {
        const then = earlier.get(each[name]);
        const rate = rateOf(each, then, passed_s);
        const row = page.querySelector(`[data-${name}="${CSS.escape(each[name])}"]`);
        remember(series, `${name} ${each[name]}`, rate);
        if (row) fill(row, each, rate, series.get(`${name} ${each[name]}`));
        if (row && name === "query") waits(row, each, unmoved);
        if (row && then && passed_s > 0) cpu(row, (each.core_ms - then.core_ms) / passed_s);
      }
    }
    totals(page, found, before, passed_s, series);
    for (const head of document.querySelectorAll("[data-snapshot] b, [data-head]")) head.textContent = thousands(found.head);
    before = found;
  }

  unhide(page);
  refresh();
  setInterval(refresh, EVERY_MS);
  document.addEventListener("visibilitychange", refresh);
}

// What only scripts fill.
function unhide(page) {
  for (const each of page.querySelectorAll("[data-scripted]")) each.hidden = false;
}

// Rows of a query, or elements of a stream, for each second; null: not known yet.
function rateOf(now, then, passed_s) {
  const count = (each) => each.rows ?? each.elements;
  return then && passed_s > 0 ? Math.max(0, count(now) - count(then)) / passed_s : null;
}

// The rates that the server has of the last minutes.
function recall(series, rates) {
  series.clear();
  for (const [name, points] of Object.entries(rates.queries)) series.set(`query ${name}`, points);
  for (const [name, points] of Object.entries(rates.streams)) series.set(`stream ${name}`, points);
  for (const [name, points] of Object.entries(rates.totals)) series.set(name, points);
}

function latest(rate, points) {
  const known = rate ?? points?.at(-1);
  return known === undefined ? "…" : perSecond(known);
}

function remember(series, name, rate) {
  if (rate === null) return;
  const points = series.get(name) ?? [];
  points.push(rate);
  if (points.length > POINTS) points.shift();
  series.set(name, points);
}

function fill(row, each, rate, points) {
  const set = (name, text) => {
    const cell = row.querySelector(`[data-figure="${name}"]`);
    if (cell) cell.textContent = text;
  };
  set("emissions", thousands(each.emissions ?? 0));
  set("elements", thousands(each.elements ?? 0));
  set("runner", each.shard == null ? each.runner : `${each.runner}, shard ${each.shard}`);
  set("late", thousands(each.late ?? 0));
  set("time", each.time_ms === null ? "never" : moment(each.time_ms));
  set("lag", lag(each.lag_ms));
  set("rate", latest(rate, points));
  const badge = row.querySelector(".badge");
  if (badge && each.state && badge.textContent !== each.state) {
    badge.textContent = each.state;
    badge.className = `badge ${each.state}`;
  }
  sparkline(row.querySelector("[data-spark]"), points);
}

// For what a query waits whose time has not moved on for some readings.
function waits(row, each, unmoved) {
  const before = unmoved.get(each.query);
  const readings = each.waits_for.length && before?.time === each.time_ms ? before.readings + 1 : 0;
  unmoved.set(each.query, { time: each.time_ms, readings });
  const cell = row.querySelector('[data-figure="waits"]');
  if (cell) cell.textContent = readings >= WAITS_AFTER ? `waits for ${each.waits_for.join(", ")}` : "";
}

// ms: the milliseconds of a core that its evaluations took in a second.
function cpu(row, ms) {
  const cell = row.querySelector('[data-figure="cpu"]');
  if (cell) cell.textContent = ms <= 0 ? "0 %" : ms < 1 ? "<0.1 %" : `${(ms / 10).toFixed(1)} %`;
}

function totals(page, found, before, passed_s, series) {
  const sum = (list, name) => list.reduce((total, each) => total + (each[name] ?? 0), 0);
  for (const tile of page.querySelectorAll("[data-total]")) {
    const [kind, name] = tile.dataset.total.split(" ");
    const counted = sum(found[kind], name);
    const rate = before && passed_s > 0 ? Math.max(0, counted - sum(before[kind], name)) / passed_s : null;
    remember(series, tile.dataset.total, rate);
    const points = series.get(tile.dataset.total);
    tile.querySelector("b").textContent = latest(rate, points);
    sparkline(tile.querySelector("[data-spark]"), points);
  }
  const behind = page.querySelector("[data-behind]");
  if (behind) behind.textContent = lag(found.lag_ms);
}

// A query or a stream was created or dropped: the rows of the page are not those of the server.
function isAnotherList(page, found) {
  const list = page.querySelector("[data-list]");
  if (!list) return false;
  const [kind, name, most] = list.dataset.list.split(" ");
  const shown = [...list.querySelectorAll(`[data-${name}]`)].map((row) => row.dataset[name]);
  const there = found[kind].map((each) => each[name]);
  return shown.join("\n") !== there.slice(0, Number(most ?? there.length)).join("\n");
}

async function reload(page) {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const found = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-figures]");
  if (!found) return;
  page.replaceChildren(...found.childNodes);
  unhide(page);
}

function sparkline(svg, points) {
  if (!svg || !points?.length) return;
  const most = Math.max(...points, 1e-9);
  const x = (place) => 100 - (points.length - 1 - place) * (100 / (POINTS - 1));
  const y = (value) => 21 - (value / most) * 20;
  let line = svg.querySelector("polyline");
  if (!line) {
    line = document.createElementNS(SVG, "polyline");
    svg.append(line);
  }
  svg.parentElement.title = `the last four minutes; at most ${perSecond(Math.max(...points))} a second`;
  line.setAttribute("points", points.map((value, place) => `${x(place).toFixed(1)},${y(value).toFixed(1)}`).join(" "));
}

export const thousands = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
const perSecond = (rate) => (rate === 0 ? "0" : rate < 10 ? rate.toFixed(1) : thousands(Math.round(rate)));
const lag = (ms) => (ms == null ? "–" : ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`);

function moment(time) {
  if (!(time > 1e12 && time < 253402300800000)) return String(time);
  return new Date(time).toISOString().replace("T", " ");
}
