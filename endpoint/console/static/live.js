// The results of a registered query as they arrive: the server-sent events of the HTTP routes, as rows and as a chart.
// A slider goes back in time, as far as emissions are retained.

import { Chart, plain } from "./charts.js";
import { isDate, moment, termElement, textOf, triples, valueOf } from "./terms.js";

const KEPT = 200;
const LOGGED = 50;
const PAST = 60; // emissions that are shown of an earlier time
const PAST_AFTER_MS = 150; // the slider rests
const DIFFERENT_MAX = 50; // of a variable: enough to know that it changes
const GROUPS_MAX = 8;
const ROWS = ""; // drawn where no variable is chosen: how many rows an emission has

export function showLive(section, libraries) {
  const find = (name) => section.querySelector(`[data-live-${name}]`);
  const prefixes = Object.entries(JSON.parse(section.dataset.prefixes));
  const chart = libraries ? new Chart(find("chart")) : null;
  const emissions = [];
  const oldest = Number(section.dataset.oldest);
  const values = new Map(); // the different values of each variable that had a number
  let past = null; // the emissions of an earlier time, in place of the last ones
  let last = Number(section.dataset.since);
  let source = null;
  let chosen = null; // the number of the emission whose rows are shown; null: the latest
  let isChosenByHand = false; // the variable of the chart

  function state(text, kind) {
    find("state").textContent = text;
    section.querySelector(".dot").className = `dot ${kind}`;
  }

  function listen() {
    source = new EventSource(`${section.dataset.live}?since=${last}`);
    source.onopen = () => state("connected", "on");
    source.onerror = () => {
      const over = source.readyState === EventSource.CLOSED;
      state(over ? "the query has ended, or the server rejects the subscription" : "not connected, trying again", "off");
    };
    source.onmessage = (event) => take(JSON.parse(event.data));
    find("toggle").textContent = "Pause the view";
  }

  function take(emission) {
    withTriples(emission);
    last = emission.emission;
    emissions.push(emission);
    if (emissions.length > KEPT) emissions.shift();
    offer(emission);
    requestAnimationFrame(show);
  }

  // Variables that had a number can be drawn; the others can be the groups.
  function offer(emission) {
    for (const binding of emission.results?.bindings ?? []) {
      for (const [name, term] of Object.entries(binding)) {
        const isNumber = Number.isFinite(valueOf(term));
        if (isNumber) noteValue(name, term.value);
        const choices = find(isNumber ? "of" : "by");
        if ([...choices.options].some((option) => option.value === name)) continue;
        choices.add(new Option(`?${name}`, name));
        if (!isNumber && choices.options.length === 2) choices.value = name;
      }
    }
    if (!isChosenByHand && values.size) find("of").value = mostDifferent();
  }

  function noteValue(name, value) {
    if (!values.has(name)) values.set(name, new Set());
    if (values.get(name).size < DIFFERENT_MAX) values.get(name).add(value);
  }

  // A variable that changes says more than one that does not, such as a limit beside a mean.
  function mostDifferent() {
    return [...values].reduce((most, each) => (each[1].size > most[1].size ? each : most))[0];
  }

  function show() {
    const shown = past ?? emissions;
    const latest = shown.at(-1);
    if (!latest) return;
    const emission = shown.find((each) => each.emission === chosen) ?? latest;
    find("title").textContent = `Emission ${emission.emission} at ${moment(emission.time)}`;
    find("latest").hidden = emission === latest;
    rows(find("rows"), emission, prefixes);
    log(find("log"), shown, emission, (number) => {
      chosen = number === shown.at(-1).emission ? null : number;
      show();
    });
    const now = emissions.at(-1);
    document.querySelector("[data-live-emissions]").textContent = now.emission;
    document.querySelector("[data-live-evaluated]").textContent = moment(now.time, 0).replace("T", " ");
    slide(shown);
    draw(shown, emission);
  }

  function draw(shown, emission) {
    const [of, by, as] = ["of", "by", "as"].map((name) => find(name).value);
    const limit = find("limit").value === "" ? null : Number(find("limit").value);
    const label = of ? `?${of}` : "rows";
    noteCut(as, by, shown);
    find("chart").hidden = as === "number" || !chart;
    find("number").hidden = as !== "number";
    if (as === "number") bigNumber(find("number"), emission, of, label, limit);
    else if (chart && as === "bar") bars(chart, emission, of, by, label, limit, prefixes);
    else if (chart) lines(chart, shown, of, by, label, limit, prefixes);
  }

  // That not each group has a line.
  function noteCut(as, by, shown) {
    const groups = as === "line" && by ? groupsOf(shown, by) : 0;
    find("cut").hidden = groups <= GROUPS_MAX;
    find("cut").textContent = `The lines of ${GROUPS_MAX} of ${groups} different ?${by}. Bars show more.`;
  }

  // ---- back in time

  function slide(shown) {
    const slider = find("until");
    find("back").hidden = last <= oldest;
    slider.min = oldest;
    slider.max = last;
    if (!past) slider.value = last;
    find("now").hidden = !past;
    find("where").textContent = `emissions ${shown[0].emission} to ${shown.at(-1).emission} of ${last}`;
  }

  async function goBack() {
    const until = Number(find("until").value);
    chosen = null;
    if (until >= last) {
      past = null;
      show();
      return;
    }
    try {
      const since = Math.max(oldest - 1, until - PAST);
      const answer = await fetch(`${section.dataset.live}?since=${since}&until=${until}`);
      const text = await answer.text();
      if (!answer.ok) throw new Error(text.split("\n")[0]);
      if (Number(find("until").value) !== until) return; // the slider has moved on
      const found = text.split("\n").filter(Boolean).map((line) => withTriples(JSON.parse(line)));
      if (!found.length) throw new Error("these emissions are not stored any more");
      past = found;
      show();
    } catch (error) {
      find("where").textContent = error.message;
    }
  }

  let resting = null;
  find("until").addEventListener("input", () => {
    clearTimeout(resting);
    resting = setTimeout(goBack, PAST_AFTER_MS);
  });
  find("now").addEventListener("click", () => {
    find("until").value = last;
    goBack();
    find("until").focus(); // the button is gone
  });
  find("of").addEventListener("input", () => {
    isChosenByHand = true;
  });
  for (const name of ["of", "by", "as", "limit"]) find(name).addEventListener("input", show);
  find("latest").addEventListener("click", () => {
    chosen = null;
    show();
  });
  find("toggle").addEventListener("click", () => {
    if (source) {
      source.close();
      source = null;
      state("paused; the query goes on", "");
      find("toggle").textContent = "Continue the view";
    } else {
      listen();
    }
  });
  listen();
}

// The graph of a CONSTRUCT as rows.
function withTriples(emission) {
  return "graph" in emission ? Object.assign(emission, triples(emission.graph)) : emission;
}

function count(emission) {
  if ("boolean" in emission) return emission.boolean ? 1 : 0;
  if ("graph" in emission) return emission.graph.split("\n").filter(Boolean).length;
  return emission.results.bindings.length;
}

function summary(emission) {
  if ("boolean" in emission) return emission.boolean ? "yes" : "no";
  const rows = count(emission);
  const thing = "graph" in emission ? "triple" : "row";
  const times = emission.repeated ? ` × ${emission.repeated}` : "";
  return `${rows} ${thing}${rows === 1 ? "" : "s"}${times}`;
}

// ---- rows and the list of emissions

function rows(table, emission, prefixes) {
  table.replaceChildren();
  if ("boolean" in emission) {
    const cell = table.insertRow().insertCell();
    cell.className = "term literal";
    cell.textContent = summary(emission);
    return;
  }
  const head = table.createTHead().insertRow();
  for (const name of emission.head.vars) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const binding of emission.results.bindings.slice(0, KEPT)) {
    const row = body.insertRow();
    for (const name of emission.head.vars) row.insertCell().append(termElement(binding[name], prefixes));
  }
  if (!emission.results.bindings.length) {
    const cell = body.insertRow().insertCell();
    cell.colSpan = emission.head.vars.length;
    cell.className = "muted";
    cell.textContent = "no rows";
  }
}

function log(list, emissions, shown, choose) {
  list.replaceChildren(...emissions.slice(-LOGGED).reverse().map((emission) => {
    const line = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", String(emission === shown));
    button.addEventListener("click", () => choose(emission.emission));
    for (const [kind, text] of [["", `#${emission.emission}`], ["", moment(emission.time)], ["rows", summary(emission)]]) {
      const part = document.createElement("span");
      part.className = kind;
      part.textContent = text;
      button.append(part);
    }
    line.append(button);
    return line;
  }));
}

// ---- charts

// The values of an emission by group: the mean of a variable, or how many rows.
function valuesOf(emission, of, by, prefixes) {
  const groups = new Map();
  for (const binding of emission.results?.bindings ?? []) {
    const name = by ? textOf(binding[by], prefixes) : "";
    const value = of ? valueOf(binding[of]) : 1;
    if (!Number.isFinite(value)) continue;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(value);
  }
  if (!of && !by) return new Map([["", count(emission)]]);
  const sum = (found) => found.reduce((total, value) => total + value, 0);
  return new Map([...groups].map(([name, found]) => [name, of === ROWS ? sum(found) : sum(found) / found.length]));
}

function groupsOf(emissions, by) {
  return new Set(emissions.flatMap((emission) => (emission.results?.bindings ?? []).map((each) => each[by]?.value))).size;
}

function lines(chart, emissions, of, by, label, threshold, prefixes) {
  const found = emissions.map((emission) => valuesOf(emission, of, by, prefixes));
  const often = new Map();
  for (const values of found) for (const name of values.keys()) often.set(name, (often.get(name) ?? 0) + 1);
  const names = [...often].sort(([, a], [, b]) => b - a).slice(0, GROUPS_MAX).map(([name]) => name).sort();
  if (!names.length) {
    chart.clear();
    return;
  }
  const time = isDate(emissions[0].time);
  chart.show({
    x: emissions.map((emission) => emission.time / (time ? 1000 : 1)),
    series: names.map((name) => ({ label: name || label, values: found.map((values) => values.get(name) ?? null) })),
    time,
    threshold,
    title: `${label} of the last ${emissions.length} emissions${by ? `, a line for each ?${by}` : ""}`,
  });
}

function bars(chart, emission, of, by, label, threshold, prefixes) {
  const found = [...valuesOf(emission, of, by, prefixes)].slice(0, 40);
  if (!found.length) {
    chart.clear();
    return;
  }
  chart.show({
    x: found.map((_, place) => place),
    series: [{ label, values: found.map(([, value]) => value) }],
    kind: "bar",
    names: found.map(([name]) => name || label),
    threshold,
    title: `${label} of emission ${emission.emission}${by ? `, a bar for each ?${by}` : ""}`,
  });
}

function bigNumber(box, emission, of, label, threshold) {
  const [value] = valuesOf(emission, of, "", []).values();
  box.querySelector("b").textContent = plain(value);
  box.querySelector("span").textContent = label;
  box.className = `number-view ${threshold === null || value === undefined ? "" : value > threshold ? "over" : "under"}`;
}
