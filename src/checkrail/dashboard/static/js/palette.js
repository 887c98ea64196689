const dialog = document.getElementById("palette");
const field = dialog?.querySelector("input");
const list = dialog?.querySelector("ul");
let wanted = 0;

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "k" && dialog) {
    event.preventDefault();
    dialog.showModal();
    field.value = "";
    find();
  }
});

field?.addEventListener("input", find);
field?.addEventListener("keydown", (event) => {
  const links = [...list.querySelectorAll("a")];
  const at = links.findIndex((link) => link.ariaSelected === "true");
  if (event.key === "Enter") {
    event.preventDefault();
    links[Math.max(0, at)]?.click();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    select(links, at + (event.key === "ArrowDown" ? 1 : -1));
  }
});
dialog?.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

function select(links, at) {
  links.forEach((link, number) => { link.ariaSelected = String(number === (at + links.length) % links.length); });
  links[(at + links.length) % links.length]?.scrollIntoView({ block: "nearest" });
}

async function find() {
  const mine = ++wanted;
  const answer = await fetch(`/ui/palette?q=${encodeURIComponent(field.value)}`);
  if (mine !== wanted || !answer.ok) return;
  const found = await answer.json();
  list.replaceChildren(...found.map(({ label, url, kind }) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const note = document.createElement("span");
    link.href = url;
    link.textContent = label;
    note.className = "muted";
    note.textContent = kind;
    link.append(note);
    item.append(link);
    return item;
  }));
  select([...list.querySelectorAll("a")], 0);
}
