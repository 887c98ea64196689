// The hooks of an agent: the draft is the form, and it is checked while somebody types.
const form = document.querySelector("form[data-draft]");
let waiting;

function check() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    htmx.ajax("POST", form.dataset.draft, { values: Object.fromEntries(new FormData(form)), target: "#problems", swap: "none" });
  }, 300);
}

if (form) {
  form.addEventListener("input", check);
  form.addEventListener("change", (event) => {
    if (event.target.dataset.step !== "type") return;
    const step = document.createElement("input");
    step.type = "hidden";
    step.name = "step";
    step.value = "type";
    form.append(step);
    form.submit();
  });
  const point = form.querySelector("[data-add]");
  const button = form.querySelector("[data-add-button]");
  point?.addEventListener("change", () => { button.value = `add:${point.value}`; });
}
