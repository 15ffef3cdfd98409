// Fetches the part of the page that changes, again and again. The server has escaped all that is in it.
"use strict";

(() => {
  const EVERY_MS = 2000;
  const fresh = document.getElementById("fresh");
  const pause = document.getElementById("pause");
  let paused = false;
  let newest = "";

  const url = new URL(location.href);
  url.searchParams.set("part", "1");
  url.hash = "";

  // A screen reader says what changes there, so only what is new is written.
  function tell(text, kind) {
    if (fresh.textContent !== text) {
      fresh.textContent = text;
      fresh.className = kind;
    }
  }

  function part() {
    return document.getElementById("part");
  }

  function tellAge() {
    const age = part().dataset.fresh;
    tell(age, age === "live" ? "" : "bad");
  }

  // Somebody may be reading: what is in focus and how far things are scrolled stays, and what is unfolded.
  function replace(old, text) {
    const parsed = new DOMParser().parseFromString(text, "text/html").getElementById("part");
    const inside = (root) => [...root.querySelectorAll("a, summary, [tabindex]")];
    const nameOf = (each) => each.href ?? (each.tagName === "SUMMARY" ? each.parentElement.id : each.ariaLabel);
    const focused = inside(old).indexOf(document.activeElement);
    const same = focused < 0 ? [] : [nameOf(document.activeElement)];
    const scrolled = [...old.querySelectorAll("[tabindex]")].map((each) => each.scrollLeft);
    const open = new Set([...old.querySelectorAll("details[open]")].map((each) => each.id));
    old.replaceWith(parsed);
    parsed.querySelectorAll("details").forEach((each) => { each.open = open.has(each.id); });
    [...parsed.querySelectorAll("[tabindex]")].forEach((each, at) => { each.scrollLeft = scrolled[at] ?? 0; });
    if (focused >= 0) {
      inside(parsed).find((each) => same.includes(nameOf(each)))?.focus({ preventScroll: true });
    }
  }

  async function refresh() {
    const answer = await fetch(url, { cache: "no-store" });
    const text = await answer.text();
    if (!answer.ok) {
      throw new Error("the answer was " + answer.status);
    }
    const selected = getSelection();
    const isSelecting = !selected.isCollapsed && part().contains(selected.anchorNode);
    if (!paused && !isSelecting && text !== newest) {
      newest = text;
      replace(part(), text);
    }
  }

  async function again() {
    if (!paused && !document.hidden) {
      try {
        await refresh();
        if (!paused) {
          tellAge();
        }
      } catch (error) {
        tell("not live: " + error.message, "bad");
      }
    }
    setTimeout(again, EVERY_MS);
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    tell(paused ? "paused" : "live", "");
  });
  again();
})();
