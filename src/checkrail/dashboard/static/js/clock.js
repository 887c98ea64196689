// Times that still go on: how long since, and how long until.
export function duration(seconds) {
  seconds = Math.max(0, seconds);
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds) % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function tick() {
  if (document.hidden) return;
  const now = Date.now() / 1000;
  for (const each of document.querySelectorAll("[data-since]")) each.textContent = duration(now - each.dataset.since);
  for (const each of document.querySelectorAll("[data-until]")) {
    const left = each.dataset.until - now;
    each.textContent = left > 0 ? `ends in ${duration(left)}` : "has ended";
  }
}
setInterval(tick, 1000);
