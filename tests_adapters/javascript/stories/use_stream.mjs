// What a front end, such as agent-chat-ui, does with useStream of @langchain/langgraph-sdk/react.
import { useStream } from "@langchain/langgraph-sdk/react";
import { message } from "./messages.mjs";
import { changes, mount, until } from "./page.mjs";

const storageOf = (items) => ({
  getItem: (key) => items.get(key) ?? null,
  setItem: (key, value) => items.set(key, value),
  removeItem: (key) => items.delete(key),
});

const human = (content, id) => ({ type: "human", content, id });

function open(apiUrl, assistantId, options = {}) {
  const seen = { errors: [], finished: [], created: [] };
  const given = {
    apiUrl,
    apiKey: null,
    assistantId,
    onThreadId: (id) => (seen.threadId = id),
    onCreated: (run) => seen.created.push(run),
    onFinish: (state) => seen.finished.push(state && [state.values, state.next]),
    onError: (error) => seen.errors.push(String(error)),
    ...options,
  };
  const read = (stream) => stream.messages.map((one) => one.content);
  const page = mount(useStream, given, read);
  page.seen = seen;
  page.idle = () =>
    until(() => !page.now.isLoading && !page.now.isThreadLoading, "the stream ends");
  page.submit = async (...given) => {
    await page.now.submit(...given);
    await page.idle();
  };
  return page;
}

/** Return the status in which the first run of a page ended. */
async function endOf(page) {
  const [{ thread_id, run_id }] = page.seen.created;
  let status;
  await until(async () => {
    ({ status } = await page.now.client.runs.get(thread_id, run_id));
    return !["pending", "running"].includes(status);
  }, "the run ends");
  return status;
}

export async function showsMessages(url) {
  const page = open(url, "agent");
  await page.submit({ messages: [human("the weather?", "human-1")] });
  const first = {
    messages: page.now.messages.map(message),
    shown: changes(page.renders),
    calls: page.now.toolCalls.map(({ call, result, state }) => [
      call.name,
      call.args,
      result?.content,
      state,
    ]),
    node: page.now.getMessagesMetadata(page.now.messages.at(-1))?.streamMetadata?.langgraph_node,
  };
  await page.submit(
    { messages: [human("thanks", "human-2")] },
    {
      optimisticValues: (values) => ({
        messages: [...values.messages, human("thanks", "human-2")],
      }),
    },
  );
  return {
    first,
    messages: page.now.messages.map(message),
    error: String(page.now.error),
    seen: page.seen,
  };
}

export async function resumesAnInterrupt(url) {
  const page = open(url, "approval", { fetchStateHistory: true });
  await page.submit({ text: "x" });
  const interrupt = page.now.interrupt;
  const again = open(url, "approval", { threadId: page.seen.threadId, fetchStateHistory: true });
  await again.idle();
  await page.submit({}, { command: { resume: "yes" } });
  return {
    interrupt,
    interrupts: page.now.interrupts,
    loaded: [again.now.interrupt, again.now.values],
    values: page.now.values,
    after: page.now.interrupt ?? null,
    seen: page.seen,
  };
}

export async function resumesWithoutInput(url) {
  const page = open(url, "approval");
  await page.submit({ text: "x" });
  await page.submit(undefined, { command: { resume: "no" } });
  return {
    values: page.now.values,
    after: page.now.interrupt ?? null,
    error: String(page.now.error),
  };
}

export async function showsABreakpoint(url) {
  const page = open(url, "steps", { fetchStateHistory: true });
  await page.submit({ text: "" }, { interruptBefore: ["second"] });
  const interrupt = page.now.interrupt;
  await page.submit(null);
  return { interrupt, values: page.now.values, after: page.now.interrupt ?? null };
}

/** A person edits the first message, then goes back to what it was. */
export async function branches(url) {
  const page = open(url, "agent", { fetchStateHistory: true });
  const contents = () => page.now.messages.map((one) => one.content);
  await page.submit({ messages: [human("one", "human-1")] });
  await page.submit({ messages: [human("two", "human-2")] });
  await until(() => page.now.getMessagesMetadata(page.now.messages[0], 0)?.firstSeenState);
  const before = contents();
  const metadata = page.now.getMessagesMetadata(page.now.messages[0], 0);
  await page.submit(
    { messages: [human("other", "human-3")] },
    { checkpoint: metadata.firstSeenState.parent_checkpoint },
  );
  await until(() => page.now.getMessagesMetadata(page.now.messages[0], 0)?.branchOptions?.length);
  const edited = contents();
  const chosen = page.now.getMessagesMetadata(page.now.messages[0], 0);
  const other = chosen.branchOptions.find((branch) => branch !== chosen.branch);
  page.now.setBranch(other);
  await until(() => contents()[0] === "one", "the first branch is shown");
  return {
    before,
    edited,
    options: chosen.branchOptions.length,
    back: contents(),
    history: page.now.history.map((state) => [state.metadata.step, state.next]),
    error: String(page.now.error),
  };
}

/** A person asks for another answer to the same question. */
export async function regenerates(url) {
  const page = open(url, "agent", { fetchStateHistory: true });
  await page.submit({ messages: [human("one", "human-1")] });
  const last = () => page.now.getMessagesMetadata(page.now.messages.at(-1), 1);
  await until(() => last()?.firstSeenState);
  await page.submit(undefined, { checkpoint: last().firstSeenState.parent_checkpoint });
  const history = await page.now.client.threads.getHistory(page.seen.threadId);
  return {
    messages: page.now.messages.map(message),
    history: history.map((state) => [state.metadata.step, state.metadata.source, state.next]),
    errors: page.seen.errors,
  };
}

export async function stops(url) {
  const stopped = [];
  const page = open(url, "slow", { onStop: () => stopped.push(true) });
  const submitted = page.now.submit({ seconds: 20 });
  await until(() => page.now.values.log?.length);
  await page.now.stop();
  await submitted;
  await page.idle();
  return {
    stopped,
    values: page.now.values,
    error: String(page.now.error),
    status: await endOf(page),
    seen: page.seen,
  };
}

/** A person reloads the page while a run goes on. */
export async function comesBack(url) {
  const items = new Map();
  const options = { reconnectOnMount: () => storageOf(items) };
  const page = open(url, "slow", options);
  page.now.submit({ seconds: 2 });
  await until(() => page.now.values.log?.length && items.size);
  page.unmount();
  const again = open(url, "slow", { ...options, threadId: page.seen.threadId });
  await until(() => again.now.values.log?.length === 2, "the run's end is shown");
  await until(() => again.seen.finished.length);
  return {
    values: again.now.values,
    finished: again.seen.finished.length,
    errors: again.seen.errors,
  };
}

/** As comesBack, but the person presses stop on the page that came back. */
export async function stopsAfterComingBack(url) {
  const items = new Map();
  const options = { reconnectOnMount: () => storageOf(items) };
  const page = open(url, "slow", options);
  page.now.submit({ seconds: 20 });
  await until(() => page.now.values.log?.length && items.size);
  page.unmount();
  const again = open(url, "slow", { ...options, threadId: page.seen.threadId });
  await until(() => again.now.isLoading && again.now.values.log?.length);
  await again.now.stop();
  return { status: await endOf(page), errors: again.seen.errors, left: items.size };
}

export async function showsFailures(url) {
  const page = open(url, "failing");
  await page.submit({ text: "badly" });
  const { error } = page.now;
  const loaded = open(url, "failing", { threadId: page.seen.threadId });
  await loaded.idle();
  await page.submit({ text: "well" });
  return {
    error: [error?.name, error?.message],
    loaded: [loaded.now.values, String(loaded.now.error)],
    values: page.now.values,
    after: String(page.now.error),
    seen: page.seen,
  };
}

export async function showsAMissingThread(url) {
  const page = open(url, "echo", { threadId: crypto.randomUUID() });
  await until(() => page.now.error);
  return { status: page.now.error.status };
}

export async function callsBack(url) {
  const events = [];
  const note = (kind) => (data, options) => events.push([kind, data, options?.namespace ?? null]);
  const page = open(url, "nested", {
    onUpdateEvent: note("update"),
    onCustomEvent: note("custom"),
  });
  await page.submit({ text: "x" }, { streamSubgraphs: true });
  return { events, values: page.now.values };
}
