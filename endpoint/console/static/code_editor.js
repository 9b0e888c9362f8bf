// A text area as a CodeMirror with our language: colours, errors where they are, completion.
//
// It is in a shadow tree. There CodeMirror uses constructed style sheets, which need no exception of the page's
// content security policy. The text area stays in the form, hidden, with the same text.

import { Completion } from "./completion.js";
import {
  autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap, defaultKeymap, drawSelection,
  EditorState, EditorView, highlightActiveLine, highlightSelectionMatches, highlightSpecialChars, HighlightStyle,
  history, historyKeymap, indentUnit, keymap, lineNumbers, linter, lintKeymap, searchKeymap, StreamLanguage,
  syntaxHighlighting, tags,
} from "./libraries/codemirror.js";
import { sparql } from "./sparql_language.js";

const CHECK_AFTER_MS = 350;
// A longer text does not fit into an address.
const ADDRESS_MAX = 4000;

export function codeEditor(area) {
  const label = area.labels[0];
  const host = document.createElement("div");
  host.className = "code-editor";
  area.after(host);
  const root = host.attachShadow({ mode: "open", delegatesFocus: true });
  const words = JSON.parse(area.dataset.words);
  const completion = new Completion(words, area.dataset.vocabulary, area.dataset.expected);
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        lineNumbers(), history(), highlightSpecialChars(), drawSelection(), highlightActiveLine(), bracketMatching(),
        closeBrackets(), highlightSelectionMatches(), indentUnit.of("  "), EditorView.lineWrapping,
        StreamLanguage.define(sparql(words)), syntaxHighlighting(COLOURS), LOOKS,
        autocompletion({ override: [(context) => completion.at(context)], icons: false, maxRenderedOptions: 60 }),
        linter((shown) => problems(shown, area), { delay: CHECK_AFTER_MS }),
        EditorView.contentAttributes.of({ "aria-label": label.textContent.trim(), spellcheck: "false" }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          area.value = update.state.doc.toString();
          area.dispatchEvent(new Event("input"));
        }),
        keymap.of([
          { key: "Mod-Enter", run: () => (area.form.requestSubmit(), true) },
          ...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap,
          ...searchKeymap,
        ]),
      ],
    }),
  });
  label.removeAttribute("for");
  label.addEventListener("click", () => view.focus());
  area.required = false; // a field that is hidden cannot show that it is empty
  area.hidden = true;
  return {
    get text() {
      return view.state.doc.toString();
    },
    set text(text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    focus: () => view.focus(),
    select(line, column) {
      const at = place(view.state.doc, line, column);
      view.dispatch({ selection: { anchor: at }, scrollIntoView: true });
      view.focus();
    },
  };
}

function place(doc, line, column) {
  if (line > doc.lines) return doc.length;
  const found = doc.line(line);
  return Math.min(found.from + column - 1, found.to);
}

// Asks the server what is wrong with the text, and tells the page what the text means.
async function problems(view, area) {
  const text = view.state.doc.toString();
  if (!area.dataset.check || !text.trim()) return [];
  let checked;
  try {
    const fields = new URLSearchParams({ query: text });
    const answer = await (text.length < ADDRESS_MAX
      ? fetch(`${area.dataset.check}?${fields}`)
      : fetch(area.dataset.check, { method: "POST", body: fields }));
    if (!answer.ok) return [];
    checked = await answer.json();
  } catch {
    return []; // the server does not answer now; the next change asks again
  }
  area.dispatchEvent(new CustomEvent("checked", { detail: checked }));
  return checked.problems.map(({ line, column, message }) => {
    const doc = view.state.doc;
    const from = place(doc, line, column);
    const rest = doc.sliceString(from, Math.min(from + 200, doc.length));
    const length = /^(?:[?$]?[\w:.-]+|<[^>\s]*>?|\S)/.exec(rest)?.[0].length ?? 0;
    // At the end of the text the last character is underlined.
    return { from: length ? from : Math.max(0, from - 1), to: from + length, severity: "error", message };
  });
}

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: tags.special(tags.keyword), color: "var(--stream)", fontWeight: "600" },
  { tag: tags.function(tags.variableName), color: "var(--accent)" },
  { tag: tags.variableName, color: "var(--variable)" },
  { tag: tags.propertyName, color: "var(--ink)" },
  { tag: tags.namespace, color: "var(--muted)" },
  { tag: tags.url, color: "var(--good)" },
  { tag: tags.string, color: "var(--literal)" },
  { tag: tags.number, color: "var(--number)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: tags.name, color: "var(--ink)", fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

const LOOKS = EditorView.theme({
  "&": {
    color: "var(--ink)", backgroundColor: "var(--paper)", fontSize: "0.9rem", borderRadius: "7px",
    border: "1px solid var(--line-strong)",
  },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", minHeight: "12rem", maxHeight: "65vh" },
  ".cm-content": { caretColor: "var(--ink)", padding: "0.6rem 0" },
  ".cm-gutters": {
    color: "var(--muted)", backgroundColor: "var(--sunken)", border: "0", borderRadius: "7px 0 0 7px",
  },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--tint) 45%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "color-mix(in srgb, var(--accent) 28%, transparent)",
  },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--accent) 16%, transparent)" },
  "&.cm-focused .cm-matchingBracket": {
    backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent)", color: "inherit",
  },
  ".cm-tooltip": {
    color: "var(--ink)", backgroundColor: "var(--surface)", border: "1px solid var(--line-strong)",
    borderRadius: "7px", boxShadow: "var(--shadow)", overflow: "hidden", maxWidth: "min(36rem, 90vw)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "14rem" },
  ".cm-tooltip-autocomplete > ul > li": { display: "flex", gap: "1rem", padding: "0.15rem 0.6rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    color: "var(--on-accent)", backgroundColor: "var(--accent)",
  },
  ".cm-completionDetail": { marginLeft: "auto", fontStyle: "normal", opacity: "0.8" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-diagnostic": { padding: "0.4rem 0.7rem", fontFamily: "var(--sans)", whiteSpace: "pre-wrap" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--bad)" },
  ".cm-lintRange-error": {
    backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "0.25em",
  },
  ".cm-panels": { color: "var(--ink)", backgroundColor: "var(--sunken)" },
  ".cm-panel input, .cm-panel button": { fontSize: "0.85rem" },
});
