// Keeps the parts marked data-live fresh: the page is asked for again and
// those parts are swapped. Without this script the page reads the same, once.
"use strict";
const every = 5000;
const parts = [...document.querySelectorAll("[data-live]")];
const moved = ".list, .tail"; // they have the keyboard only to be scrolled

// tell says in the head of the page whether what is shown is of now.
function tell(text, away) {
  const pulse = document.getElementById("pulse");
  if (pulse.textContent !== text) pulse.textContent = text;
  pulse.hidden = false;
  pulse.classList.toggle("away", away);
  pulse.classList.remove("fresh");
  if (!away) requestAnimationFrame(() => pulse.classList.add("fresh"));
}

// swap replaces a part and leaves the reader where he was: how far lists and
// logs were scrolled (a log that stands at its end stays there), what was
// unfolded, which of them the keyboard moves.
function swap(part, next) {
  if (!next || next.innerHTML === part.innerHTML) return;
  const scrolled = [...part.querySelectorAll(".list")].map((l) => l.scrollLeft);
  const above = [...part.querySelectorAll(".tail")].map((t) => t.scrollTop); // 0 = at its end
  const at = [...part.querySelectorAll(moved)].indexOf(document.activeElement);
  const unfolded = [...part.querySelectorAll("details")].map((d) => d.open);
  part.replaceChildren(...next.childNodes);
  part.querySelectorAll(".list").forEach((l, i) => { l.scrollLeft = scrolled[i] || 0; });
  part.querySelectorAll(".tail").forEach((t, i) => { t.scrollTop = above[i] || 0; });
  part.querySelectorAll("details").forEach((d, i) => { d.open = unfolded[i] || false; });
  if (at >= 0) part.querySelectorAll(moved)[at]?.focus({ preventScroll: true });
}

// On a narrow screen the entry of this page may be beyond the edge.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

let asking = false;
async function refresh() {
  if (asking || document.hidden || parts.some((p) => p.contains(document.activeElement) && !document.activeElement.matches(moved)) || String(getSelection()) !== "") return;
  asking = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.status === 401) return tell("logged out: load the page again", true);
    if (!answer.ok || answer.redirected) return tell("not up to date", true);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const p of parts) swap(p, fresh.getElementById(p.id));
    tell("live", false);
  } catch {
    tell("the server is away", true); // the page stays as it is, and asks again
  } finally {
    asking = false;
  }
}

if (parts.length > 0) {
  tell("live", false);
  setInterval(refresh, every);
}
