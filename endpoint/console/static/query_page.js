// The query page: runs a text without leaving the page, can cancel it, says what a continuous query means before it is
// registered, formats, shares, and remembers texts in this browser.

import { memory } from "./memory.js";
import { outcome } from "./outcome.js";
import { moment } from "./terms.js";

export function queryPage(form, editors, libraries) {
  const area = form.querySelector("[data-editor]");
  const editor = editors.get(area);
  const find = (name) => form.querySelector(`[data-${name}]`);
  const shown = document.querySelector("[data-outcome]");
  const remember = memory(form.querySelector("[data-memory]"), editor);
  for (const each of form.querySelectorAll("[data-scripted]")) each.hidden = false;
  outcome(shown, { form, editor, libraries });

  let running = null;
  let sent = editor.text;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(event.submitter ?? form.querySelector("button"));
  });

  find("cancel").addEventListener("click", () => {
    fetch(form.dataset.cancel, { method: "POST", body: new URLSearchParams({ run: running?.name ?? "" }) });
    running?.abort.abort();
  });

  async function run(button) {
    if (running) return;
    running = { name: crypto.randomUUID(), abort: new AbortController() };
    const fields = new FormData(form, button);
    sent = editor.text;
    fields.set("query", sent);
    fields.set("run", running.name);
    remember.add(editor.text);
    const began = performance.now();
    const clock = setInterval(() => say(`running for ${((performance.now() - began) / 1000).toFixed(1)} s`), 100);
    find("cancel").hidden = false;
    shown.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(form.action, {
        method: "POST", body: new URLSearchParams(fields), signal: running.abort.signal, headers: { "rillet-script": "1" },
      });
      say("");
      const next = answer.headers.get("rillet-location"); // the page of a query that was registered
      if (next) {
        location.assign(next);
      } else {
        replace(shown, await answer.text());
        outcome(shown, { form, editor, libraries });
        markEarlier(); // somebody may have written while it ran
      }
    } catch (error) {
      say(error.name === "AbortError" ? "cancelled" : "the server does not answer");
    } finally {
      clearInterval(clock);
      find("cancel").hidden = true;
      shown.removeAttribute("aria-busy");
      running = null;
    }
  }

  function say(text) {
    find("running").textContent = text;
  }

  // An outcome is of the text that was sent. Where another one is written, an error goes, and a result says so.
  function markEarlier() {
    const isEarlier = editor.text !== sent;
    if (isEarlier) shown.querySelector(".notice.bad")?.remove();
    const result = shown.querySelector("[data-result], [aria-labelledby=plan]");
    const note = shown.querySelector("[data-earlier]");
    shown.classList.toggle("earlier", isEarlier && result !== null);
    if (!isEarlier || !result) note?.remove();
    else if (!note) shown.prepend(earlierNote());
  }

  function earlierNote() {
    const note = element("p", "notice warned", "This is of an earlier text, not of the one above. Run that one to see its result.");
    note.dataset.earlier = "";
    note.setAttribute("role", "status");
    return note;
  }

  area.addEventListener("input", markEarlier);

  // ---- what the text means

  area.addEventListener("checked", ({ detail }) => {
    const means = find("means");
    const lines = detail.means ?? [];
    const warnings = detail.warnings ?? [];
    means.hidden = !lines.length && !warnings.length;
    means.replaceChildren(
      ...(lines.length ? [element("p", "title", `If you register it${detail.name ? ` as ${detail.name}` : ""}:`), list(lines)] : []),
      ...warnings.map((warning) => element("p", "warning", `Probably not meant: ${warning}.`)),
    );
    form.classList.toggle("continuous", lines.length > 0);
    offerTimes(detail.times);
  });

  // ---- layout, sharing

  find("layout").addEventListener("click", async () => {
    const body = new URLSearchParams({ query: editor.text });
    const answer = await fetch(form.dataset.layout, { method: "POST", body });
    const { text, problem } = await answer.json();
    if (text !== undefined) {
      if (sent === body.get("query")) sent = text; // another layout of the same text
      editor.text = text;
    }
    say(problem ? "a text with an error keeps its layout" : "");
    editor.focus();
  });

  find("share").addEventListener("click", async () => {
    const link = `${location.origin}${location.pathname}#query=${encodeURIComponent(editor.text)}`;
    try {
      await navigator.clipboard.writeText(link);
      say("the link to this text is copied");
    } catch {
      history.replaceState(null, "", link); // no clipboard: the address has the link
      say("the link is in the address");
    }
  });

  // ---- the time, chosen with a slider: of a continuous query, as far as its streams have elements

  const atSlider = find("at-slider");
  const at = form.elements.at;
  let until = null;

  function offerTimes(times) {
    find("times").hidden = !times || times.from === times.until;
    if (find("times").hidden) return;
    until = times.until;
    // The steps end at the last time.
    const steps = Math.floor((times.until - times.from) / times.step_ms);
    atSlider.step = Math.max(1, steps > 0 ? times.step_ms : 1);
    atSlider.min = steps > 0 ? times.until - steps * times.step_ms : times.from;
    atSlider.max = times.until;
    atSlider.value = Number(at.value) || times.until;
    find("times-shown").textContent = `${moment(times.from, 0)} to ${moment(times.until, 0)}`;
  }

  atSlider.addEventListener("input", () => {
    at.value = Number(atSlider.value) === until ? "" : moment(Number(atSlider.value), 0);
  });

  // ---- the snapshot, chosen with a slider

  const slider = find("slider");
  const number = form.elements.snapshot;
  if (slider) {
    slider.addEventListener("input", () => {
      number.value = slider.value === slider.max ? "" : slider.value;
    });
    number.addEventListener("input", () => {
      slider.value = number.value || slider.max;
    });
  }
}

// Takes the outcome out of the page that the server sent.
function replace(shown, page) {
  const found = new DOMParser().parseFromString(page, "text/html").querySelector("[data-outcome]");
  if (found) shown.replaceChildren(...found.childNodes);
  else shown.replaceChildren(element("p", "notice bad", "The server sent another page. Load this page again."));
  shown.scrollIntoView({ block: "nearest" });
}

export function element(tag, kind, text = "") {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.textContent = text;
  return made;
}

function list(lines) {
  const made = element("ul", "");
  made.append(...lines.map((line) => element("li", "", line)));
  return made;
}
