// What a front end does with useStream of @langchain/react: commands to a thread, and its events.
import { Client } from "@langchain/langgraph-sdk";
import { useStream } from "@langchain/react";
import { changes, mount, until } from "./page.mjs";

function open(apiUrl, assistantId, options = {}) {
  const seen = { created: [], completed: [] };
  const given = {
    apiUrl,
    apiKey: null,
    assistantId,
    onThreadId: (id) => (seen.threadId = id),
    onCreated: (run) => seen.created.push(Object.keys(run).sort()),
    onCompleted: (end) => seen.completed.push(end),
    ...options,
  };
  const page = mount(useStream, given, (stream) => stream.messages.map((one) => one.text));
  page.seen = seen;
  page.idle = () => until(() => !page.now.isLoading && !page.now.isThreadLoading, "the run ends");
  page.submit = async (...given) => {
    await page.now.submit(...given);
    await page.idle();
  };
  return page;
}

const show = (one) => ({
  type: one.getType(),
  text: one.text,
  calls: one.tool_calls?.map((call) => [call.name, call.args, call.id]),
});

function summary({ now: { values, error, interrupts, isLoading } }) {
  return { values, error: error && String(error), interrupts, isLoading };
}

export async function showsMessages(url) {
  const page = open(url, "agent");
  await page.submit({ messages: [{ type: "human", content: "the weather?", id: "human-1" }] });
  await until(() => page.now.messages.length === 4 && page.seen.completed.length === 1);
  const first = page.now.messages.map(show);
  await page.submit({ messages: [{ type: "human", content: "thanks", id: "human-2" }] });
  await until(() => page.now.messages.length === 6 && page.seen.completed.length === 2);
  return {
    first,
    last: changes(page.renders).at(-1),
    messages: page.now.messages.map(show),
    error: String(page.now.error),
    seen: page.seen,
  };
}

export async function showsValues(url) {
  const page = open(url, "steps");
  await page.submit({ text: "" });
  await until(() => page.now.values.log?.length === 3 && page.seen.completed.length);
  return { ...summary(page), seen: page.seen };
}

export async function responds(url) {
  const page = open(url, "approval");
  await page.submit({ text: "x" });
  await until(() => page.now.interrupt && page.now.values.log?.length === 1);
  const asked = summary(page);
  await page.now.respond("yes");
  await until(() => page.now.values.log?.length === 3);
  await page.idle();
  return { asked, answered: summary(page) };
}

export async function respondsToAll(url) {
  const page = open(url, "pair");
  await page.submit({ text: "x" });
  await until(() => page.now.interrupts.length === 2);
  const asked = page.now.interrupts.map(({ value }) => value).sort();
  await page.now.respondAll(
    Object.fromEntries(page.now.interrupts.map(({ id, value }) => [id, `${value} yes`])),
  );
  await until(() => page.now.values.log?.length === 2);
  await page.idle();
  return { asked, answered: [page.now.values, page.now.interrupts] };
}

/** A person opens a thread that waits, in a new tab. */
export async function opensAThread(url) {
  const page = open(url, "approval");
  await page.submit({ text: "x" });
  await until(() => page.now.interrupt);
  const again = open(url, "approval", { threadId: page.seen.threadId });
  await again.now.hydrationPromise;
  await until(() => again.now.interrupt && again.now.values.log?.length === 1);
  const loaded = [again.now.values, again.now.interrupts];
  await again.now.respond("late", { interruptId: again.now.interrupt.id });
  await until(() => again.now.values.log?.length === 3);
  return { loaded, values: again.now.values };
}

export async function showsFailures(url) {
  const page = open(url, "failing");
  await page.submit({ text: "badly" }).catch(() => {});
  await until(() => page.now.error);
  await until(() => page.seen.completed.length);
  // LangGraph's own server loses its text where the run ends before the page listens.
  return { broken: page.now.error instanceof Error, completed: page.seen.completed };
}

export async function stops(url) {
  const page = open(url, "slow");
  const submitted = page.now.submit({ seconds: 20 });
  await until(() => page.now.values.log?.length);
  await page.now.stop();
  await submitted;
  await page.idle();
  const client = new Client({ apiUrl: url, apiKey: null });
  const status = async () => (await client.runs.list(page.seen.threadId))[0].status;
  await until(async () => !["pending", "running"].includes(await status()), "the run ends");
  return { values: page.now.values, error: String(page.now.error), status: await status() };
}

export async function discoversSubgraphs(url) {
  const page = open(url, "nested");
  await page.submit({ text: "x" });
  await until(() => page.now.values.log?.length === 3 && page.now.subgraphsByNode.size);
  const { subgraphsByNode, values } = page.now;
  const found = [...subgraphsByNode].map(([node, all]) => [node, all.map(({ status }) => status)]);
  return { values, found };
}

export async function forks(url) {
  const page = open(url, "steps");
  await page.submit({ text: "" });
  const client = new Client({ apiUrl: url, apiKey: null });
  const history = await client.threads.getHistory(page.seen.threadId);
  const past = history.find((state) => state.next[0] === "second");
  await page.submit(null, { forkFrom: past.checkpoint.checkpoint_id });
  let after = [];
  await until(async () => {
    after = await client.threads.getHistory(page.seen.threadId);
    return after[0].next.length === 0 && after.length > history.length;
  }, "the fork's end");
  await until(() => page.now.values.text === "abc");
  return {
    values: page.now.values,
    steps: after.map((state) => [state.metadata.step, state.metadata.source, state.values.text]),
  };
}
