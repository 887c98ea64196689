// The timeline: one step is selected, arrow keys move, rows that are not there yet are fetched.
const grid = () => document.querySelector("[data-steps]");
const rows = () => [...document.querySelectorAll("[data-steps] .step")];
const isWide = () => matchMedia("(min-width: 641px)").matches;

export function selected() {
  return document.querySelector('[data-steps] .step[aria-selected="true"]');
}

function select(row, { push = false } = {}) {
  if (!row) return;
  if (!isWide()) {
    location.assign(row.href);
    return;
  }
  for (const other of rows()) other.ariaSelected = "false";
  row.ariaSelected = "true";
  rove(row);
  row.scrollIntoView({ block: "nearest" });
  history[push ? "pushState" : "replaceState"]({}, "", row.href);
  show(row.href);
}

function show(url) {
  htmx.ajax("GET", url, { target: "#panel", swap: "innerHTML" });
}

// Only one row can be reached by Tab; the arrows lead on from it.
function rove(row) {
  for (const other of rows()) other.tabIndex = -1;
  const first = row ?? rows()[0];
  if (first) first.tabIndex = 0;
}

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const row = event.target.closest?.(".step");
  if (row && isWide()) {
    event.preventDefault();
    select(row, { push: true });
    row.focus();
    return;
  }
  const inner = event.target.closest?.("#panel [data-diff], #panel .chain a, #panel table a, [data-to-block]");
  if (inner && grid() && isWide() && inner.href.includes("/steps/")) {
    event.preventDefault();
    history.pushState({}, "", inner.href);
    mark();
    show(inner.href);
  }
  const link = event.target.closest?.("[data-copy-link]");
  if (link) navigator.clipboard?.writeText(location.href);
});

window.addEventListener("popstate", () => location.reload());

document.addEventListener("keydown", (event) => {
  if (!grid() || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.closest("input, textarea, select, dialog")) return;
  const all = rows();
  const at = all.indexOf(selected());
  const moves = {
    ArrowDown: () => all[at + 1],
    ArrowUp: () => all[at < 0 ? 0 : at - 1],
    n: () => all.slice(at + 1).find((row) => "decision" in row.dataset),
    p: () => all.slice(0, Math.max(0, at)).reverse().find((row) => "decision" in row.dataset),
    b: () => document.querySelector("[data-to-block]") && all.find((row) => row.href.split("?")[0] === document.querySelector("[data-to-block]").href.split("?")[0]),
  };
  if (event.key === "d" && selected()) {
    const tabs = [...document.querySelectorAll("#panel [data-diff]")];
    const now = tabs.findIndex((tab) => tab.ariaCurrent);
    if (tabs.length) tabs[(now + 1) % tabs.length].click();
    return;
  }
  const next = moves[event.key]?.();
  if (!next) return;
  event.preventDefault();
  select(next);
  if (document.activeElement.matches(".step")) next.focus();
});

// The selection is the browser's: what the server sends anew does not move it.
function mark() {
  const here = location.pathname;
  for (const row of rows()) row.ariaSelected = String(new URL(row.href).pathname === here);
  rove(selected());
}

const seen = "IntersectionObserver" in window
  ? new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) load(entry.target);
  }, { rootMargin: "600px" })
  : null;

async function load(chunk) {
  const url = chunk.dataset.chunk;
  if (!url) return;
  delete chunk.dataset.chunk;
  seen?.unobserve(chunk);
  await htmx.ajax("GET", url, { target: `#${chunk.id}`, swap: "innerHTML" });
  chunk.classList.remove("blank");
  mark();
}

function watch() {
  for (const chunk of document.querySelectorAll("[data-chunk]")) seen?.observe(chunk);
}

if (grid()) {
  watch();
  rove(selected());
  selected()?.scrollIntoView({ block: "center" });
  document.addEventListener("htmx:after:swap", (event) => {
    if (event.detail?.ctx?.target?.id === "panel") return;
    mark();
    watch();
  });
}
