// What a page does besides showing its content: keys in the editor, fields that depend on others, live results.
// Every page works without this script, except for the live results.
"use strict";

for (const editor of document.querySelectorAll("[data-editor]")) {
  editor.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      editor.form.requestSubmit();
    }
  });
  const problem = document.querySelector("[data-line]");
  if (problem) select(editor, Number(problem.dataset.line), Number(problem.dataset.column));
}

// A text in the address is filled in but not run: the author of the link is not the user who presses the button.
const came = document.querySelector("[data-came]");
const fragment = new URLSearchParams(location.hash.slice(1)).get("query");
if (came && fragment !== null) {
  document.querySelector("[data-editor]").value = fragment;
  came.hidden = false;
}

// The bar shows the latest snapshot, while the page is visible.
const snapshot = document.querySelector("[data-snapshot]");
if (snapshot) setInterval(() => { if (!document.hidden) look(snapshot); }, 2000);

async function look(shown) {
  let found = null;
  try {
    const answer = await fetch(shown.dataset.snapshot, { headers: { accept: "text/plain" } });
    if (answer.ok) found = await answer.text();
  } catch {} // the server does not answer now; the next request may succeed
  shown.classList.toggle("old", found === null);
  if (found !== null) shown.querySelector("b").textContent = found;
}

// On a narrow screen the bar is wider than the page: scroll to the entry of this page.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Puts the caret where the error is.
function select(editor, line, column) {
  const lines = editor.value.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  const start = Math.min(before + column - 1, editor.value.length);
  editor.focus();
  editor.setSelectionRange(start, Math.min(start + 1, editor.value.length));
}

for (const example of document.querySelectorAll("[data-example]")) {
  example.addEventListener("click", (event) => {
    const editor = document.querySelector("[data-editor]");
    if (!editor || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    editor.value = example.dataset.example;
    editor.focus();
  });
}

// A field that has a meaning for one choice only is shown with that choice.
for (const choice of document.querySelectorAll("[data-shows]")) {
  const [field, value] = choice.dataset.shows.split(":");
  const show = () => { document.getElementById(field).hidden = choice.value !== value; };
  choice.addEventListener("change", show);
  show();
}

for (const field of document.querySelectorAll("[data-chooses]")) {
  field.addEventListener("input", () => { document.getElementById(field.dataset.chooses).checked = true; });
}

// ---- live results: the server-sent events of the HTTP routes

const KEPT = 200;
const LOGGED = 50;
const SVG = "http://www.w3.org/2000/svg";

for (const section of document.querySelectorAll("[data-live]")) live(section);

function live(section) {
  const find = (name) => section.querySelector(`[data-live-${name}]`);
  const prefixes = Object.entries(JSON.parse(section.dataset.prefixes));
  const emissions = [];
  let last = Number(section.dataset.since);
  let source = null;

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
    find("toggle").textContent = "Disconnect";
  }

  function take(emission) {
    if ("graph" in emission) Object.assign(emission, triples(emission.graph));
    last = emission.emission;
    emissions.push(emission);
    if (emissions.length > KEPT) emissions.shift();
    offer(emission);
    requestAnimationFrame(show);
  }

  // Variables that had a number as their value can be drawn.
  function offer(emission) {
    const choices = find("of");
    for (const binding of emission.results?.bindings ?? []) {
      for (const [name, term] of Object.entries(binding)) {
        const known = [...choices.options].some((option) => option.value === name);
        if (!known && Number.isFinite(numeric(term))) choices.add(new Option(`?${name}`, name));
      }
    }
  }

  function show() {
    const emission = emissions.at(-1);
    if (!emission) return;
    find("title").textContent = `Emission ${emission.emission} at ${moment(emission.time)}`;
    rows(find("rows"), emission, prefixes);
    log(find("log"), emissions);
    document.querySelector("[data-live-emissions]").textContent = emission.emission;
    document.querySelector("[data-live-evaluated]").textContent = moment(emission.time, 0).replace("T", " ");
    chart(find("chart"), emissions, find("of").value);
  }

  find("of").addEventListener("change", show);
  find("toggle").addEventListener("click", () => {
    if (source) {
      source.close();
      source = null;
      state("disconnected", "");
      find("toggle").textContent = "Connect";
    } else {
      listen();
    }
  });
  listen();
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
    for (const name of emission.head.vars) row.insertCell().append(term(binding[name], prefixes));
  }
  if (!emission.results.bindings.length) {
    const cell = body.insertRow().insertCell();
    cell.colSpan = emission.head.vars.length;
    cell.className = "muted";
    cell.textContent = "no rows";
  }
}

// The result of a CONSTRUCT (N-Triples) as rows.
function triples(graph) {
  const vars = ["subject", "predicate", "object"];
  const bindings = [...graph.matchAll(/^(\S+) (\S+) (.+) \.$/gm)].map(([, ...nodes]) =>
    Object.fromEntries(nodes.map((node, place) => [vars[place], nodeOf(node)])));
  return { head: { vars }, results: { bindings } };
}

function nodeOf(text) {
  if (text.startsWith("<")) return { type: "uri", value: unescaped(text.slice(1, -1)) };
  if (text.startsWith("_:")) return { type: "bnode", value: text.slice(2) };
  const end = text.lastIndexOf('"');
  const datatype = text.slice(end + 1).startsWith("^^") ? unescaped(text.slice(end + 4, -1)) : undefined;
  return { type: "literal", value: unescaped(text.slice(1, end)), datatype };
}

function unescaped(text) {
  const named = { t: "\t", b: "\b", n: "\n", r: "\r", f: "\f" };
  return text.replace(/\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))/g, (_, four, eight, one) =>
    one ? named[one] ?? one : String.fromCodePoint(parseInt(four ?? eight, 16)));
}

function term(value, prefixes) {
  const shown = document.createElement("span");
  if (!value) {
    shown.className = "unbound";
    shown.textContent = "·";
    return shown;
  }
  const kind = Number.isFinite(numeric(value)) ? "number" : { uri: "iri", bnode: "blank" }[value.type] ?? "literal";
  shown.className = `term ${kind}`;
  const plain = kind === "number" ? briefNumber(value.value) : value.value;
  shown.textContent = { iri: short(value.value, prefixes), blank: `_:${value.value}` }[kind] ?? plain;
  shown.title = value.value;
  return shown;
}

// A mean may have 50 digits: the page shows the first ones, and all of them as a tooltip.
function briefNumber(text) {
  return text.length > 20 && text.slice(0, 16).includes(".") ? `${text.slice(0, 16)}…` : text;
}

function short(iri, prefixes) {
  let best = null;
  for (const [name, space] of prefixes) {
    if (space && iri.startsWith(space) && (!best || space.length > best[1].length)) best = [name, space];
  }
  const local = best && iri.slice(best[1].length);
  return best && /^([A-Za-z0-9_][\w.-]*)?$/.test(local) ? `${best[0]}:${local}` : `<${iri}>`;
}

function numeric(term) {
  const numbers = /#(integer|decimal|double|float|int|long)$/;
  return term?.type === "literal" && numbers.test(term.datatype ?? "") ? Number(term.value) : NaN;
}

function log(list, emissions) {
  list.replaceChildren(...emissions.slice(-LOGGED).reverse().map((emission) => {
    const line = document.createElement("li");
    for (const [kind, text] of [["", `#${emission.emission}`], ["", moment(emission.time)], ["rows", summary(emission)]]) {
      const part = document.createElement("span");
      part.className = kind;
      part.textContent = text;
      line.append(part);
    }
    return line;
  }));
}

// Times of this century as times; small ones are abstract and stay numbers.
function moment(time, from = 11) {
  if (!(time > 1e12 && time < 253402300800000)) return String(time);
  return new Date(time).toISOString().slice(from, from ? 23 : 24);
}

function chart(box, emissions, variable) {
  const points = emissions.flatMap((emission) => values(emission, variable).map((value) => [emission.time, value]));
  box.replaceChildren();
  if (!points.length) return;
  const width = box.clientWidth, height = box.clientHeight, edge = { left: 52, right: 14, top: 14, bottom: 24 };
  const times = points.map((point) => point[0]), heights = points.map((point) => point[1]);
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const [low, high] = [Math.min(0, ...heights), Math.max(1, ...heights)];
  const x = (time) => edge.left + (to === from ? 0.5 : (time - from) / (to - from)) * (width - edge.left - edge.right);
  const y = (value) => height - edge.bottom - (value - low) / (high - low || 1) * (height - edge.top - edge.bottom);
  const svg = draw(box, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  svg.setAttribute("aria-label", `${variable ? "?" + variable : "rows"} of the last ${emissions.length} emissions, between ${low} and ${high}`);
  for (const value of [low, high]) {
    draw(svg, "line", { class: "grid", x1: edge.left, x2: width - edge.right, y1: y(value), y2: y(value) });
    draw(svg, "text", { x: edge.left - 8, y: y(value) + 4, "text-anchor": "end" }).textContent = brief(value);
  }
  const path = points.map(([time, value], place) => `${place ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  draw(svg, "path", { class: "area", d: `${path}L${x(times.at(-1)).toFixed(1)} ${y(low)}L${x(times[0]).toFixed(1)} ${y(low)}Z` });
  draw(svg, "path", { class: "line", d: path });
  draw(svg, "circle", { class: "end", cx: x(times.at(-1)), cy: y(heights.at(-1)), r: 4 });
  draw(svg, "text", { x: edge.left, y: height - 7 }).textContent = moment(from);
  if (to !== from) draw(svg, "text", { x: width - edge.right, y: height - 7, "text-anchor": "end" }).textContent = moment(to);
}

// One point an emission: how many rows, or the mean of a variable.
function values(emission, variable) {
  if (!variable) return [count(emission)];
  const found = (emission.results?.bindings ?? []).map((binding) => numeric(binding[variable])).filter(Number.isFinite);
  return found.length ? [found.reduce((sum, value) => sum + value, 0) / found.length] : [];
}

function brief(value) {
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

function draw(parent, name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}
