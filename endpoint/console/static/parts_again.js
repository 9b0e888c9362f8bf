// Parts of a page that are read again from the server every two seconds, while the page is visible.

const EVERY_MS = 2000;
const SLOWLY_MS = 6000;

// The operators of a query: the server measures while somebody looks, so a part that is closed does not ask.
export function measured(part) {
  const closes = part.closest("details");
  const refresh = async () => {
    if (!document.hidden && (!closes || closes.open)) await take(part, part.dataset.measured, "[data-measured]");
  };
  closes?.addEventListener("toggle", refresh);
  setInterval(refresh, EVERY_MS);
}

// A part of this page, or of the page at the address that it has.
export function again(part) {
  setInterval(() => {
    if (!document.hidden) take(part, part.dataset.again || location.pathname, "[data-again]");
  }, SLOWLY_MS);
}

// Bodies of tables and lines of text are replaced; a table stays where it is, with its focus and its scrolling.
async function take(part, address, selector) {
  try {
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(selector);
    if (!found) return;
    const [bodies, there] = [part, found].map((each) => [...each.querySelectorAll("tbody")]);
    const isAlike = bodies.length === there.length && bodies.length > 0 && part.children.length === found.children.length;
    if (!isAlike) {
      part.replaceChildren(...found.childNodes);
      return;
    }
    bodies.forEach((body, place) => body.replaceChildren(...there[place].childNodes));
    [...part.children].forEach((each, place) => {
      if (each.tagName === "P") each.textContent = found.children[place].textContent;
    });
  } catch {
    // The server does not answer now; the next request may succeed.
  }
}
