// The texts that were run, and those that somebody saved, in this browser only.

const HISTORY = "rillet.history";
const SAVED = "rillet.saved";
const HISTORY_MAX = 50;
const CHARACTERS_MAX = 20_000;

export function memory(section, editor) {
  const lists = { history: section.querySelector("[data-history]"), saved: section.querySelector("[data-saved]") };
  const name = section.querySelector("[data-save-name]");

  section.querySelector("[data-save]").addEventListener("click", () => {
    const called = name.value.trim() || firstWords(editor.text);
    write(SAVED, [{ name: called, text: editor.text }, ...read(SAVED).filter((each) => each.name !== called)]);
    name.value = "";
    show();
  });
  name.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault(); // it would run the query
      section.querySelector("[data-save]").click();
    }
  });

  function show() {
    lists.history.replaceChildren(...entries(HISTORY, ({ text }) => firstWords(text)));
    lists.saved.replaceChildren(...entries(SAVED, (each) => each.name));
  }

  function entries(key, label) {
    const found = read(key);
    if (!found.length) return [item(note(key === SAVED ? "Nothing is saved yet." : "Nothing was run yet."))];
    return found.map((each, place) => {
      const open = button("link", label(each));
      open.title = each.text;
      open.addEventListener("click", () => {
        editor.text = each.text;
        editor.focus();
      });
      const forget = button("link quiet", "remove");
      forget.setAttribute("aria-label", `Remove ${label(each)}`);
      forget.addEventListener("click", () => {
        write(key, read(key).filter((_, at) => at !== place));
        show();
      });
      return item(open, forget);
    });
  }

  show();
  return {
    add(text) {
      if (!text.trim() || text.length > CHARACTERS_MAX) return;
      write(HISTORY, [{ text }, ...read(HISTORY).filter((each) => each.text !== text)].slice(0, HISTORY_MAX));
      show();
    },
  };
}

function read(key) {
  try {
    const found = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each?.text === "string") : [];
  } catch {
    return []; // no storage, or something else wrote there
  }
}

function write(key, entries) {
  try {
    localStorage.setItem(key, JSON.stringify(entries));
  } catch {
    // The browser keeps nothing: the lists are as long as the page.
  }
}

// The first line that is no comment and no prefix.
function firstWords(text) {
  const lines = text.split("\n").map((line) => line.trim());
  const line = lines.find((each) => each && !/^(#|PREFIX\b|BASE\b)/i.test(each)) ?? lines[0];
  return line.length > 70 ? `${line.slice(0, 70)}…` : line;
}

function button(kind, text) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = kind;
  made.textContent = text;
  return made;
}

function note(text) {
  const made = document.createElement("span");
  made.className = "muted";
  made.textContent = text;
  return made;
}

function item(...children) {
  const made = document.createElement("li");
  made.append(...children);
  return made;
}
