document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  event.preventDefault();
  await copyText(button.dataset.copy);
  const before = button.title;
  button.title = "Copied";
  announce("Copied");
  setTimeout(() => { button.title = before; }, 1500);
});

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

let region;
export function announce(text) {
  if (!region) {
    region = document.createElement("div");
    region.className = "sr";
    region.setAttribute("role", "status");
    document.body.append(region);
  }
  region.textContent = text;
}
