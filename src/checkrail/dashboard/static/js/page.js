import "./copy.js";
import "./clock.js";
import "./keys.js";
import "./palette.js";
import "./waterfall.js";
import "./live.js";
import "./editor.js";
import "./chat.js";

document.addEventListener("change", (event) => {
  const field = event.target.closest?.("[data-submit]");
  if (field) field.form.requestSubmit();
});

document.addEventListener("click", (event) => {
  const toggle = event.target.closest("[data-toggle]");
  if (toggle) {
    const open = document.getElementById(toggle.dataset.toggle).classList.toggle("open");
    toggle.setAttribute("aria-expanded", open);
    return;
  }
  const opener = event.target.closest("[data-dialog]");
  if (opener) {
    event.preventDefault();
    document.getElementById(opener.dataset.dialog).showModal();
    return;
  }
  if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
  if (event.target.closest("[data-reload]")) {
    event.preventDefault();
    location.reload();
    return;
  }
  // A row is as good as the link in it.
  const row = event.target.closest("[data-row]");
  if (row && !event.target.closest("a, button, input, select, summary")) row.querySelector("[data-open]")?.click();
});

// Fields that are left empty need not stand in the address.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "get") return;
  for (const field of event.target.elements) if (field.name && !field.value) field.disabled = true;
});
window.addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form[method=get] [disabled]")) field.disabled = false;
});

document.addEventListener("htmx:config:request", (event) => {
  event.detail.ctx.request.headers["X-CSRF-Token"] = document.body.dataset.csrf;
});

// All modules listen now, those above by being imported: whoever presses keys may begin.
document.documentElement.dataset.ready = "";
