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

  function tell(text, kind) {
    fresh.textContent = text;
    fresh.className = kind;
  }

  async function refresh() {
    const answer = await fetch(url, { cache: "no-store" });
    const text = await answer.text();
    if (!answer.ok) {
      throw new Error("the answer was " + answer.status);
    }
    if (!paused && text !== newest) {
      newest = text;
      const parsed = new DOMParser().parseFromString(text, "text/html");
      document.getElementById("part").replaceWith(parsed.getElementById("part"));
    }
  }

  async function again() {
    if (!paused && !document.hidden) {
      try {
        await refresh();
        if (!paused) {
          tell("live", "");
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
