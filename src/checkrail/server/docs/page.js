// Lists the operations of the OpenAPI document. Everything is text: nothing of it becomes markup.

const METHODS = ["get", "post", "put", "patch", "delete"];
const DEEPEST = 6;

/** Return an element with children, which are elements or texts. */
function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

/** Return what a reference of the document leads to. */
function lookUp(document_, reference) {
  const parts = reference.replace(/^#\//, "").split("/");
  return parts.reduce((found, part) => found?.[part.replace(/~1/g, "/").replace(/~0/g, "~")], document_);
}

/** Return a schema with its references filled in, down to some depth. */
function resolve(document_, value, depth = 0) {
  if (Array.isArray(value)) return value.map((each) => resolve(document_, each, depth));
  if (value === null || typeof value !== "object") return value;
  if (typeof value.$ref === "string") {
    if (depth >= DEEPEST) return { $ref: value.$ref };
    return resolve(document_, lookUp(document_, value.$ref), depth + 1);
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, resolve(document_, each, depth)]),
  );
}

/** Return a schema as text, written when it is first looked at. */
function schemaView(document_, title, content) {
  const [type, media] = Object.entries(content ?? {})[0] ?? [];
  if (!media?.schema) return element("p", title);
  const view = element("details", element("summary", `${title}: ${type}`));
  view.addEventListener("toggle", () => {
    if (view.childElementCount === 1) {
      view.append(element("pre", JSON.stringify(resolve(document_, media.schema), null, 2)));
    }
  });
  return view;
}

/** Return the parameters of an operation as a table. */
function parameterTable(document_, parameters) {
  const table = element("table");
  for (const given of parameters) {
    const parameter = resolve(document_, given);
    const need = parameter.required ? "required" : "";
    const type = parameter.schema?.type ?? "";
    const cells = [element("code", parameter.name), parameter.in, type, need, parameter.description ?? ""];
    table.append(element("tr", ...cells.map((cell) => element("td", cell))));
  }
  return table;
}

/** Return one operation, closed. */
function operationView(document_, method, path, operation) {
  const view = element("details");
  const head = element("summary", element("b", method), element("code", path));
  head.append(element("span", operation.summary ?? ""));
  view.append(head, element("p", operation.description ?? ""));
  if (operation.parameters?.length) view.append(parameterTable(document_, operation.parameters));
  if (operation.requestBody) {
    view.append(schemaView(document_, "Body", operation.requestBody.content));
  }
  for (const [status, given] of Object.entries(operation.responses ?? {})) {
    const response = resolve(document_, given);
    view.append(schemaView(document_, `${status} ${response.description ?? ""}`, given.content ?? response.content));
  }
  view.dataset.words = `${method} ${path} ${operation.summary ?? ""} ${operation.description ?? ""}`.toLowerCase();
  return view;
}

/** Return all operations by their first tag. */
function operationsByTag(document_) {
  const groups = new Map();
  for (const [path, item] of Object.entries(document_.paths ?? {})) {
    for (const method of METHODS.filter((each) => item[each])) {
      const tag = item[method].tags?.[0] ?? "other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operationView(document_, method, path, item[method]));
    }
  }
  return groups;
}

/** Show only the operations that have all words of the filter. */
function applyFilter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const section of document.querySelectorAll("main section")) {
    const views = [...section.querySelectorAll(":scope > details")];
    for (const view of views) view.hidden = !words.every((word) => view.dataset.words.includes(word));
    section.hidden = views.every((view) => view.hidden);
  }
}

async function main() {
  const place = document.getElementById("operations");
  const response = await fetch("openapi.json");
  if (!response.ok) {
    place.replaceChildren(element("p", `openapi.json answered ${response.status}`));
    return;
  }
  const found = await response.json();
  document.getElementById("title").textContent = `${found.info.title} ${found.info.version}`;
  document.getElementById("description").textContent = found.info.description ?? "";
  const sections = [...operationsByTag(found)].map(([tag, views]) =>
    element("section", element("h2", tag), ...views),
  );
  place.replaceChildren(...sections);
  const filter = document.getElementById("filter");
  filter.addEventListener("input", () => applyFilter(filter.value));
}

main();
