// What the editor offers to complete at the cursor: variables of the text, words of the language, names of the store.
// The server's parser says which words may follow here, and whether a predicate, an object or an expression is missing.

// A longer text is not sent: all words are offered.
const BEFORE_MAX = 4000;
const ALL = { keywords: null, wanted: "" };
const FRESH_MS = 30_000;
const VALID = /^[?$]?[\p{L}\p{N}_:.-]*$/u;
const WORD = /(?:[?$][\p{L}\p{N}_]*|(?:[\p{L}][\p{L}\p{N}_.-]*)?:?[\p{L}\p{N}_.-]*)$/u;
const RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";

export class Completion {
  #words;
  #url;
  #names = null;
  #asked = 0;
  #expected;

  constructor(words, url, expected) {
    this.#words = words;
    this.#url = url;
    this.#expected = expected;
  }

  async at(context) {
    const line = context.state.doc.lineAt(context.pos);
    const before = context.state.sliceDoc(Math.max(0, context.pos - 400), context.pos);
    if (isInString(line.text.slice(0, context.pos - line.from))) return null;
    const word = WORD.exec(before)?.[0] ?? "";
    if (!word && !context.explicit) return null;
    const text = context.state.doc.toString();
    const from = context.pos - word.length;
    if (/\bPREFIX\s+$/i.test(text.slice(0, from))) return this.#declarations(text, from, context.pos);
    if (/^[?$]/.test(word)) return { from, options: variables(text, word), validFor: VALID };
    const [known, here] = await Promise.all([this.#known(), this.#here(text.slice(0, from))]);
    const options = this.#options(before.slice(0, before.length - word.length), known, prefixesIn(text), here);
    return { from, options, validFor: VALID };
  }

  // Behind PREFIX a prefix is completed with its IRI; those that the text declares elsewhere are not offered.
  async #declarations(text, from, to) {
    const declared = prefixesIn(text.slice(0, from) + text.slice(to));
    const { prefixes } = await this.#known();
    const rest = /^\s*<[^<>\s]*>/.exec(text.slice(to));
    const options = Object.entries(prefixes).filter(([name]) => declared[name] === undefined).map(([name, space]) => ({
      label: `${name}:`,
      detail: "prefix",
      apply: rest ? `${name}:` : `${name}: <${space}>`,
    }));
    return { from, options, validFor: VALID };
  }

  // What may follow the text, as the parser says.
  async #here(before) {
    if (!this.#expected || before.length > BEFORE_MAX) return ALL;
    try {
      const answer = await fetch(`${this.#expected}?${new URLSearchParams({ before })}`);
      return answer.ok ? await answer.json() : ALL;
    } catch {
      return ALL;
    }
  }

  // The names of the store, asked for again after a while.
  async #known() {
    if (this.#url && (!this.#names || performance.now() - this.#asked > FRESH_MS)) {
      this.#asked = performance.now();
      try {
        const answer = await fetch(this.#url);
        if (answer.ok) this.#names = await answer.json();
      } catch {
        // The server does not answer now: what was known is offered.
      }
    }
    return this.#names ?? { prefixes: {}, predicates: [], stream_predicates: [], classes: [], graphs: [], streams: [], queries: [] };
  }

  #options(before, known, declared, here) {
    const prefixes = { ...known.prefixes, ...declared };
    // The most used ones first.
    const iris = (kind, found, boost = 0) => found.map(([iri, count], place) =>
      option(iri, count, kind, prefixes, declared, boost + 1 - place / found.length));
    const names = (kind, found, boost) => found.map(([name]) => ({ label: name, detail: kind, boost }));
    const last = /(\S+)\s*$/.exec(before)?.[1] ?? "";
    if (/^(STREAM|ON)$/i.test(last)) return names("stream", known.streams, 9);
    if (/^QUERY$/i.test(last)) return names("query", known.queries, 9);
    if (/^(GRAPH|FROM|NAMED|INTO|WITH|USING)$/i.test(last)) {
      const more = here.wanted === "name" ? ["NAMED", "WINDOW", "STREAM"] : here.keywords ?? this.#words.keywords;
      return [...iris("graph", known.graphs, 5), ...words(more, "keyword")];
    }
    if (last === "a" || last === "rdf:type" || last === `<${RDF_TYPE}>`) return iris("class", known.classes, 9);
    if (here.wanted === "name") return [];
    const fits = (...kinds) => here.keywords === null || kinds.includes(here.wanted);
    const stored = new Set(known.predicates.map(([iri]) => iri));
    const inStreams = known.stream_predicates.filter(([iri]) => !stored.has(iri));
    const functions = this.#words.functions.map((name) => ({ label: `${name}(`, detail: "function" }));
    return [
      ...(fits("predicate") ? [...iris("predicate", known.predicates, 2), ...iris("of stream", inStreams, 2)] : []),
      ...(fits("object", "expression") ? iris("class", known.classes, 1) : []),
      ...words(here.keywords ?? this.#words.keywords, "keyword"),
      ...(fits("expression") ? functions : []),
      ...Object.entries(prefixes).map(([name, space]) => ({
        label: `${name}:`,
        detail: "prefix",
        apply: declaring(`${name}:`, name, space, declared),
      })),
    ];
  }
}

function words(found, detail) {
  return found.map((label) => ({ label, detail }));
}

function variables(text, word) {
  const found = new Set([...text.matchAll(/[?$][\p{L}\p{N}_]+/gu)].map(([name]) => name));
  found.delete(word);
  return words([...found], "variable");
}

export function prefixesIn(text) {
  return Object.fromEntries([...text.matchAll(/\bPREFIX\s+([\w.-]*):\s*<([^<>\s]*)>/gi)].map(([, name, iri]) => [name, iri]));
}

// An IRI as a prefixed name where a prefix is known, else in full.
function option(iri, count, kind, prefixes, declared, boost) {
  const fitting = Object.entries(prefixes).filter(([, space]) => space && iri.startsWith(space));
  const best = fitting.sort(([, a], [, b]) => b.length - a.length)[0];
  const local = best && iri.slice(best[1].length);
  const detail = `${kind} ${count}`;
  if (!best || !/^[A-Za-z0-9_][\w-]*$/.test(local)) {
    return { label: iri.split(/[#/]/).at(-1) || iri, displayLabel: `<${iri}>`, apply: `<${iri}>`, detail, boost };
  }
  const label = `${best[0]}:${local}`;
  return { label, detail, boost, apply: declaring(label, best[0], best[1], declared) };
}

// Writes the name, and declares its prefix if the text has not done so.
function declaring(label, name, space, declared) {
  if (declared[name] !== undefined) return label;
  return (view, _completion, from, to) => {
    const line = `PREFIX ${name}: <${space}>\n`;
    view.dispatch({
      changes: [{ from: 0, insert: line }, { from, to, insert: label }],
      selection: { anchor: from + line.length + label.length },
    });
  };
}

function isInString(before) {
  const plain = before.replace(/<[^<>\s]*>/g, "").replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, "");
  return /["'#]/.test(plain) || /<[^<>\s]*$/.test(plain);
}
