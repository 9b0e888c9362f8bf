// Terms as a page shows them, and what they are worth as numbers.

// ---- cells of a table: { kind, text, full }, `full` in N-Triples

// The value of a cell for sorting and drawing: a number, a time in milliseconds, or NaN.
export function numeric(cell) {
  if (cell.kind === "number") return Number(/^"([^"]*)"/.exec(cell.full)?.[1]);
  const time = /^"([^"]*)"\^\^<[^>]*#(dateTime|date)>$/.exec(cell.full);
  return time ? Date.parse(time[1]) : NaN;
}

export const isTime = (cell) => /#(dateTime|date)>$/.test(cell.full);

// ---- terms of SPARQL results in JSON

export function valueOf(term) {
  const numbers = /#(integer|decimal|double|float|int|long)$/;
  return term?.type === "literal" && numbers.test(term.datatype ?? "") ? Number(term.value) : NaN;
}

export function termElement(value, prefixes) {
  const shown = document.createElement("span");
  if (!value) {
    shown.className = "unbound";
    shown.textContent = "·";
    return shown;
  }
  const kind = Number.isFinite(valueOf(value)) ? "number" : ({ uri: "iri", bnode: "blank" }[value.type] ?? "literal");
  shown.className = `term ${kind}`;
  shown.textContent = kind === "number" ? briefNumber(value.value) : textOf(value, prefixes);
  shown.title = value.value;
  return shown;
}

export function textOf(value, prefixes) {
  if (!value) return "·";
  return { uri: () => short(value.value, prefixes), bnode: () => `_:${value.value}` }[value.type]?.() ?? value.value;
}

// A mean may have 50 digits: the page shows some of them after the point, and all as a tooltip.
function briefNumber(text) {
  return text.replace(/^([^.eE]*\.0*(?!0)\d{6})\d+$/, "$1…");
}

function short(iri, prefixes) {
  let best = null;
  for (const [name, space] of prefixes) {
    if (space && iri.startsWith(space) && (!best || space.length > best[1].length)) best = [name, space];
  }
  const local = best && iri.slice(best[1].length);
  return best && /^([A-Za-z0-9_][\w.-]*)?$/.test(local) ? `${best[0]}:${local}` : `<${iri}>`;
}

// ---- N-Triples

// The result of a CONSTRUCT as rows.
export function triples(graph) {
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
    one ? (named[one] ?? one) : String.fromCodePoint(parseInt(four ?? eight, 16)));
}

// Times of this century as times; small ones are abstract and stay numbers.
export function moment(time, from = 11) {
  if (!isDate(time)) return String(time);
  return new Date(time).toISOString().slice(from, from ? 23 : 24);
}

export const isDate = (time) => time > 1e12 && time < 253402300800000;
