// Keeps the parts marked data-live fresh: the page is asked for again and
// those parts are swapped. Without this script the page reads the same, once.
"use strict";
const every = 5000;
async function refresh() {
  const parts = document.querySelectorAll("[data-live]");
  if (parts.length === 0) return;
  const busy = [...parts].some((p) => p.contains(document.activeElement)) || String(getSelection()) !== "";
  if (!document.hidden && !busy) {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok && !answer.redirected) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const p of parts) {
          const next = fresh.getElementById(p.id);
          if (next && next.innerHTML !== p.innerHTML) p.replaceChildren(...next.childNodes);
        }
      }
    } catch {
      // The server is away: the page stays as it is, and asks again.
    }
  }
  setTimeout(refresh, every);
}
setTimeout(refresh, every);
