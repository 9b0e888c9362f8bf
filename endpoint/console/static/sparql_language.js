// The colours of SPARQL and of our clauses, as a tokenizer of CodeMirror's.

import { tags } from "./libraries/codemirror.js";

const STREAMING = new Set(
  ("REGISTER STREAM STREAMS WINDOW RANGE STEP SLIDE SLIDING TUMBLING RSTREAM ISTREAM DSTREAM REPORT LATENESS BOUNDS " +
    "TRIPLES ELEMENTS ROWS NOW EVERY EMIT PERIODIC WINDOW_CLOSE CONTENT_CHANGE MAXDELAY").split(" "),
);
const TOKENS = { streaming: tags.special(tags.keyword), called: tags.function(tags.variableName), name: tags.name };
// They are keywords in their place, and may be names in others.
const SMALL_WORDS = new Set(["ON", "IN", "NOT", "TO"]);
const UNIT = /^(?:ms|s|m|h|d|milliseconds?|seconds?|minutes?|hours?|days?)$/i;
const LITERAL_WORDS = new Set(["TRUE", "FALSE", "UNDEF"]);

export function sparql({ keywords, functions }) {
  const known = new Set([...keywords, ...functions]);
  const called = new Set(functions);

  function word(text, stream) {
    const upper = text.toUpperCase();
    if (text === "a") return "keyword";
    if (LITERAL_WORDS.has(upper)) return "number";
    if (called.has(upper) && /^\s*\(/.test(stream.string.slice(stream.pos))) return "called";
    if (STREAMING.has(upper)) return "streaming";
    if (/^P(?=[T\d])[\dDTHMS]+$/.test(text)) return "number"; // a length of time, PT10S
    if (UNIT.test(text) && /[0-9]\s*$/.test(stream.string.slice(0, stream.start))) return "number";
    return known.has(upper) || SMALL_WORDS.has(upper) ? "keyword" : "name";
  }

  function token(stream, state) {
    if (state.quotes) {
      if (!stream.match(new RegExp(`(?:[^\\\\]|\\\\.)*?${state.quotes}`))) stream.skipToEnd();
      else state.quotes = null;
      return "string";
    }
    if (stream.eatSpace()) {
      state.local = false;
      return null;
    }
    if (stream.match(/#.*/)) return "comment";
    const long = stream.match(/"""|'''/);
    if (long) {
      state.quotes = long[0];
      return "string";
    }
    if (stream.match(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/)) return "string";
    if (stream.match(/["'].*/)) return "invalid";
    if (stream.match(/<[^<>"{}|^`\\\s]*>/)) return "url";
    if (stream.match(/[?$][\p{L}\p{N}_]+/u)) return "variableName";
    if (stream.match(/_:[\p{L}\p{N}_][\p{L}\p{N}_.-]*/u)) return "variableName";
    if (stream.match(/@[A-Za-z]+(?:-[A-Za-z0-9]+)*/)) return "string";
    if (stream.match(/(?:[\p{L}][\p{L}\p{N}_.-]*)?:/u)) {
      state.local = true;
      return "namespace";
    }
    if (state.local) {
      state.local = false;
      if (stream.match(/(?:[\p{L}\p{N}_:-]|%[0-9A-Fa-f]{2}|\\.|\.(?=[\p{L}\p{N}_:-]))+/u)) return "propertyName";
    }
    if (stream.match(/[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?/)) return "number";
    const found = stream.match(/[A-Za-z_][\w]*/);
    if (found) return word(found[0], stream);
    stream.next();
    return null;
  }

  return {
    name: "sparql",
    startState: () => ({ quotes: null, local: false }),
    token,
    languageData: { commentTokens: { line: "#" }, closeBrackets: { brackets: ["(", "[", "{", '"', "'"] } },
    indent: (state, after, context) => indentOf(after, context),
    tokenTable: TOKENS,
  };
}

// A line is indented like the one before, and once more after an opening brace.
function indentOf(after, context) {
  const line = context.state.doc.lineAt(context.pos);
  const before = line.number > 1 ? context.state.doc.line(line.number - 1).text : "";
  const depth = before.match(/^\s*/)[0].length + (/[{(]\s*$/.test(before) ? context.unit : 0);
  return Math.max(0, depth - (/^\s*[})]/.test(after) ? context.unit : 0));
}
