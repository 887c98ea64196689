import { copyText, announce } from "./copy.js";

const GO = {
  o: "/ui/", r: "/ui/runs", a: "/ui/approvals", s: "/ui/sessions", c: "/ui/chat",
  e: "/ui/agents", h: "/ui/hooks", w: "/ui/gateway", n: "/ui/runners",
};
let going = 0;

const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]");
const isOff = () => localStorage.getItem("checkrail-keys") === "off";

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]") || isOff()) return;
  const key = event.key;
  if (Date.now() - going < 1200 && GO[key]) {
    going = 0;
    location.assign(GO[key]);
  } else if (key === "g") {
    going = Date.now();
  } else if (key === "/") {
    const search = document.querySelector("[data-search]");
    if (!search) return;
    search.focus();
    search.select();
  } else if (key === "?") {
    location.assign("/ui/help/keys");
  } else if (key === "x") {
    document.querySelector("[data-clear]")?.click();
  } else if (key === "c" && document.querySelector("[data-link]")) {
    copyText(location.href).then(() => announce("Link copied"));
  } else if (!moveInList(key)) {
    return;
  }
  event.preventDefault();
});

const listed = () => [...document.querySelectorAll("[data-list] [data-row]")];
let chosen = "";

function choose(row) {
  chosen = row.id;
  for (const other of listed()) other.classList.toggle("selected", other === row);
}

// The choice is the browser's: rows that come anew from the server do not take it away.
document.addEventListener("htmx:after:swap", () => {
  const row = chosen && listed().find((other) => other.id === chosen);
  if (row) choose(row);
});

function moveInList(key) {
  const rows = listed();
  if (!rows.length || !["j", "k", "Enter"].includes(key)) return false;
  const at = rows.findIndex((row) => row.classList.contains("selected"));
  if (key === "Enter") {
    if (at < 0 || document.activeElement.closest("a, button")) return false;
    rows[at].querySelector("[data-open]").click();
    return true;
  }
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + (key === "j" ? 1 : -1)))];
  choose(next);
  next.scrollIntoView({ block: "nearest" });
  return true;
}

const toggle = document.querySelector("[data-keys-toggle]");
if (toggle) {
  toggle.checked = !isOff();
  toggle.addEventListener("change", () => localStorage.setItem("checkrail-keys", toggle.checked ? "on" : "off"));
}
