// Parts of a page that are read again from the server every two seconds, while the page is visible.

const EVERY_MS = 2000;
const SLOWLY_MS = 6000;

// The operators of a query: the server measures while somebody looks, so a part that is closed does not ask.
export function measured(part) {
  const closes = part.closest("details");
  const look = async () => {
    if (!document.hidden && (!closes || closes.open)) await refresh(part.dataset.measured, [part], () => "[data-measured]");
  };
  closes?.addEventListener("toggle", look);
  setInterval(look, EVERY_MS);
}

// Parts of this page, or of the pages at the addresses that they have: a page is read once for all of its parts. One of
// several is found again by its id.
export function again(parts) {
  const addressOf = (part) => part.dataset.again || location.pathname;
  const addresses = new Set(parts.map(addressOf));
  const selectorOf = (part) => (part.id ? `#${part.id}` : "[data-again]");
  setInterval(() => {
    if (document.hidden) return;
    for (const address of addresses) refresh(address, parts.filter((part) => addressOf(part) === address), selectorOf);
  }, SLOWLY_MS);
}

async function refresh(address, parts, selectorOf) {
  try {
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts) {
      const found = page.querySelector(selectorOf(part));
      if (found) renew(part, found);
    }
  } catch {
    // The server does not answer now; the next request may succeed.
  }
}

// Bodies of tables and lines of text are replaced; a table stays where it is, with its focus and its scrolling.
function renew(part, found) {
  if (part.innerHTML === found.innerHTML) return; // a text that somebody has marked stays marked
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
}
