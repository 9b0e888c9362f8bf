// The text areas for queries: each becomes an editor with the same four verbs, a plain one or a CodeMirror.

const DRAFT_AFTER_MS = 300;

// Maps each text area to its editor.
export async function editors(libraries) {
  const areas = [...document.querySelectorAll("[data-editor]")];
  if (!areas.length) return new Map();
  const make = libraries ? (await import("./code_editor.js")).codeEditor : plainEditor;
  const found = new Map(areas.map((area) => [area, make(area)]));
  for (const [area, editor] of found) begin(area, editor);
  return found;
}

function begin(area, editor) {
  const problem = document.querySelector("[data-line]");
  if (problem) editor.select(Number(problem.dataset.line), Number(problem.dataset.column));
  // A text in the address is filled in but not run: the author of the link is not the user who presses the button.
  const came = document.querySelector("[data-came]");
  const fill = () => {
    const fragment = new URLSearchParams(location.hash.slice(1)).get("query");
    if (!came || fragment === null) return;
    editor.text = fragment;
    came.hidden = false;
  };
  fill();
  addEventListener("hashchange", () => {
    document.querySelector("[data-outcome]")?.replaceChildren(); // it is of another text
    fill();
  });
  keepDraft(area, editor);
  for (const example of document.querySelectorAll("[data-example]")) {
    example.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      editor.text = example.dataset.example;
      editor.focus();
    });
  }
}

// What somebody wrote is there again after Back and after a reload. It is not run, as no text is.
function keepDraft(area, editor) {
  const { draft } = history.state ?? {};
  if (typeof draft === "string" && draft !== editor.text) editor.text = draft;
  const note = () => {
    if (area.value !== history.state?.draft) history.replaceState({ ...history.state, draft: area.value }, "");
  };
  let resting = null;
  area.addEventListener("input", () => {
    clearTimeout(resting);
    resting = setTimeout(note, DRAFT_AFTER_MS);
  });
  document.addEventListener("click", note, { capture: true });
}

function plainEditor(area) {
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      area.form.requestSubmit();
    }
  });
  return {
    get text() {
      return area.value;
    },
    set text(text) {
      area.value = text;
      area.dispatchEvent(new Event("input"));
    },
    focus: () => area.focus(),
    // Puts the caret at a line and a column, which count from 1.
    select(line, column) {
      const start = offsetOf(area.value, line, column);
      area.focus();
      area.setSelectionRange(start, Math.min(start + 1, area.value.length));
    },
  };
}

export function offsetOf(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  return Math.min(before + column - 1, text.length);
}
