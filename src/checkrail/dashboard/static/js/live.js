// Says whether the page follows, and keeps what somebody selected while rows come and go.
const sign = () => document.querySelector("[data-live]");
let lost;

function setLive(on) {
  clearTimeout(lost);
  const shown = sign();
  if (!shown) return;
  if (on) {
    shown.classList.add("on");
    shown.textContent = "live";
  } else {
    lost = setTimeout(() => {
      shown.classList.remove("on");
      shown.textContent = "reconnecting";
    }, 3000);
  }
}

document.addEventListener("htmx:sse:after:connection", () => setLive(true));
document.addEventListener("htmx:sse:error", () => setLive(false));
document.addEventListener("htmx:sse:before:connection", (event) => {
  if (event.detail.connection.attempt > 0) setLive(false);
});
document.addEventListener("htmx:sse:close", (event) => {
  const shown = sign();
  if (["ended", "message"].includes(event.detail.reason) && shown) shown.hidden = true;
});
