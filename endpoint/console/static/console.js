// What a page does besides showing its content. Every page works without scripts, except for live results.

import { editors } from "./editors.js";
import { figures } from "./figures.js";
import { showLive } from "./live.js";
import { again, measured } from "./parts_again.js";
import { queryPage } from "./query_page.js";
import { upload } from "./upload.js";

const libraries = document.body.hasAttribute("data-libraries");

// The bar shows the latest snapshot, while the page is visible.
const snapshot = document.querySelector("[data-snapshot]");
const refreshed = document.querySelector("[data-figures]");
if (refreshed) {
  figures(refreshed); // with the snapshot
} else if (snapshot) {
  setInterval(() => {
    if (!document.hidden) look(snapshot);
  }, 2000);
}

async function look(shown) {
  let found = null;
  try {
    const answer = await fetch(shown.dataset.snapshot, { headers: { accept: "text/plain" } });
    if (answer.ok) found = await answer.text();
  } catch {
    // The server does not answer now; the next request may succeed.
  }
  shown.classList.toggle("old", found === null);
  if (found !== null) shown.querySelector("b").textContent = found;
}

// On a narrow screen the bar is wider than the page: scroll to the entry of this page.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// A field that has a meaning for one choice only is shown with that choice.
for (const choice of document.querySelectorAll("[data-shows]")) {
  const [field, value] = choice.dataset.shows.split(":");
  const show = () => {
    document.getElementById(field).hidden = choice.value !== value;
  };
  choice.addEventListener("change", show);
  show();
}

for (const field of document.querySelectorAll("[data-chooses]")) {
  field.addEventListener("input", () => {
    document.getElementById(field.dataset.chooses).checked = true;
  });
}

for (const form of document.querySelectorAll("form[data-upload]")) upload(form);

for (const each of document.querySelectorAll("[data-measured]")) measured(each);
again([...document.querySelectorAll("[data-again]")]);
for (const section of document.querySelectorAll("[data-live]")) showLive(section, libraries);

// Last, as the editor takes longest to load.
const found = await editors(libraries);
for (const form of document.querySelectorAll("form[data-query]")) queryPage(form, found, libraries);
document.body.setAttribute("data-ready", "");
