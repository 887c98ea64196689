// A page in jsdom on which a hook is used as a component uses it.
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>", { url: "http://localhost:3000/" });
globalThis.window = window;
globalThis.document = window.document;
globalThis.navigator ??= window.navigator;

// A browser reports a rejection that nobody handles, and goes on.
process.on("unhandledRejection", (error) => console.error(error));

const { createElement } = await import("react");
const { flushSync } = await import("react-dom");
const { createRoot } = await import("react-dom/client");

/** Render a component that calls the hook, and return a handle on what the hook gave last. */
export function mount(hook, options, read) {
  const handle = { renders: [], now: undefined };
  const root = createRoot(document.body.appendChild(document.createElement("div")));
  const Component = (given) => {
    handle.now = hook(given);
    handle.renders.push(read(handle.now));
    return null;
  };
  handle.unmount = () => root.unmount();
  flushSync(() => root.render(createElement(Component, options)));
  return handle;
}

/** Wait until a condition holds. */
export async function until(condition, what = String(condition)) {
  for (const end = Date.now() + 60_000; Date.now() < end; ) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`never: ${what}`);
}

/** Return a list without repeated neighbours. */
export function changes(list) {
  const texts = list.map((item) => JSON.stringify(item));
  return list.filter((_, index) => texts[index] !== texts[index - 1]);
}
