// What a program does with @langchain/langgraph-sdk.
import { Client } from "@langchain/langgraph-sdk";
import { message } from "./messages.mjs";

// It repeats what got no answer: LangGraph's server closes connections that were idle for a while.
const connect = (apiUrl) => new Client({ apiUrl, apiKey: null });

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

async function refusal(promise) {
  try {
    return { answer: await promise };
  } catch (error) {
    return { status: error.status, message: error.message };
  }
}

const weather = { messages: [{ role: "human", content: "the weather?", id: "human-1" }] };

export async function threads(url) {
  const client = connect(url);
  const mark = crypto.randomUUID();
  const created = await client.threads.create({ metadata: { mark } });
  const id = created.thread_id;
  const values = await client.runs.wait(id, "echo", { input: { text: "hello" } });
  const got = await client.threads.get(id);
  const found = await client.threads.search({ metadata: { mark } });
  const runs = await client.runs.list(id);
  const copied = await client.threads.copy(id);
  const copy = await client.threads.getState(copied.thread_id);
  const patched = await client.threads.update(id, { metadata: { more: 1 } });
  await client.threads.delete(id);
  return {
    created: [created.status, created.values, created.metadata],
    values,
    got: [got.status, got.values, got.interrupts],
    found: found.map((thread) => [thread.thread_id, thread.status, thread.values]),
    runs: runs.map((run) => [run.status, run.multitask_strategy, run.thread_id]),
    copy: [copy.values, copy.next],
    patched: patched.metadata.more,
    deleted: (await refusal(client.threads.get(id))).status,
  };
}

export async function takesGivenThreads(url) {
  const client = connect(url);
  const threadId = crypto.randomUUID();
  const first = await client.threads.create({ threadId });
  const again = await refusal(client.threads.create({ threadId }));
  const kept = await client.threads.create({ threadId, ifExists: "do_nothing" });
  const other = crypto.randomUUID();
  const input = { text: "hello" };
  return {
    first: first.thread_id === threadId,
    again: again.status,
    kept: kept.thread_id === threadId,
    missing: (await refusal(client.runs.wait(other, "echo", { input }))).status,
    made: await client.runs.wait(other, "echo", { input, ifNotExists: "create" }),
  };
}

export async function streamsAllModes(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  let created;
  const parts = await collect(
    client.runs.stream(thread_id, "agent", {
      input: weather,
      streamMode: [
        "values",
        "messages-tuple",
        "updates",
        "custom",
        "tasks",
        "checkpoints",
        "debug",
      ],
      onRunCreated: (run) => (created = run),
    }),
  );
  const of = (mode) => parts.filter((part) => part.event === mode).map((part) => part.data);
  return {
    thread: created.thread_id === thread_id,
    run: parts[0].data.run_id === created.run_id,
    order: parts.map((part) => part.event),
    values: of("values").map((data) => data.messages.map(message)),
    messages: of("messages").map(([chunk, metadata]) => [
      chunk.type,
      chunk.content,
      chunk.id,
      chunk.tool_call_chunks,
      metadata.langgraph_node,
      metadata.langgraph_step,
    ]),
    updates: of("updates").map((data) =>
      Object.entries(data).map(([node, { messages }]) => [node, messages.map(message)]),
    ),
    tasks: of("tasks").map((data) => [data.name, Object.keys(data).sort()]),
    checkpoints: of("checkpoints").map((data) => [
      data.metadata.step,
      data.metadata.source,
      data.next,
    ]),
    debug: of("debug").map((data) => [data.type, data.step]),
  };
}

export async function streamsMessages(url) {
  const client = connect(url);
  const parts = await collect(
    client.runs.stream(null, "agent", { input: weather, streamMode: ["messages", "events"] }),
  );
  const events = parts.filter((part) => part.event === "events").map((part) => part.data);
  const rest = parts.filter((part) => part.event !== "events").slice(1);
  return {
    messages: rest.map(({ event, data }) => [
      event,
      Array.isArray(data) ? data.map(message) : null,
    ]),
    events: events.map((data) => [data.event, data.name, data.metadata?.langgraph_node]),
  };
}

export async function streamsSubgraphs(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  const stream = (payload) =>
    collect(
      client.runs.stream(thread_id, "nested", {
        streamMode: ["updates", "custom", "values"],
        streamSubgraphs: true,
        ...payload,
      }),
    );
  const show = (parts) => parts.slice(1).map((part) => [part.event, part.data]);
  const asked = show(await stream({ input: { text: "wait" } }));
  const state = await client.threads.getState(thread_id, undefined, { subgraphs: true });
  return {
    asked,
    inside: state.tasks.map((task) => [
      task.name,
      task.state?.values,
      task.state?.next,
      task.interrupts,
    ]),
    resumed: show(await stream({ command: { resume: "go" } })),
  };
}

export async function interruptsAndResumes(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  const asked = await client.runs.wait(thread_id, "approval", { input: { text: "x" } });
  const thread = await client.threads.get(thread_id);
  const state = await client.threads.getState(thread_id);
  const parts = await collect(
    client.runs.stream(thread_id, "approval", {
      input: {}, // as agent-chat-ui has it
      command: { resume: "yes" },
      streamMode: ["values", "updates"],
    }),
  );
  const after = await client.threads.get(thread_id);
  return {
    asked,
    thread: [thread.status, Object.values(thread.interrupts)],
    state: [state.next, state.tasks.map((task) => [task.name, task.interrupts, task.error])],
    resumed: parts.slice(1).map((part) => [part.event, part.data]),
    after: [after.status, after.interrupts, after.values],
  };
}

export async function resumesEachInterrupt(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "pair", { input: { text: "x" } });
  const { tasks } = await client.threads.getState(thread_id);
  const pending = tasks
    .flatMap((task) => task.interrupts)
    .sort((a, b) => (a.value < b.value ? -1 : 1));
  const resume = Object.fromEntries(pending.map(({ id, value }) => [id, `${value} yes`]));
  return {
    pending: pending.map(({ value }) => value),
    values: await client.runs.wait(thread_id, "pair", { command: { resume } }),
  };
}

export async function pausesBeforeANode(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  const first = await client.runs.wait(thread_id, "steps", {
    input: { text: "" },
    interruptBefore: ["second"],
  });
  const thread = await client.threads.get(thread_id);
  const { next } = await client.threads.getState(thread_id);
  const rest = await client.runs.wait(thread_id, "steps", { input: null });
  return { first, status: thread.status, next, rest };
}

export async function goesToANode(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "steps", { input: { text: "" } });
  const command = { update: { text: "new " }, goto: "third" };
  return client.runs.wait(thread_id, "steps", { command });
}

export async function travelsInTime(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "steps", { input: { text: "" } });
  const history = await client.threads.getHistory(thread_id);
  const past = history.find((state) => state.next[0] === "second");
  const { checkpoint_id } = past.checkpoint;
  const forked = await client.threads.updateState(thread_id, {
    values: { text: "changed " },
    checkpoint: past.checkpoint,
    asNode: "first",
  });
  const from = forked.configurable ?? {};
  const replayed = await client.runs.wait(thread_id, "steps", {
    input: null,
    checkpoint: { checkpoint_id: from.checkpoint_id, checkpoint_ns: from.checkpoint_ns },
  });
  const forked_again = await client.threads.updateState(thread_id, {
    values: { text: "again " },
    checkpointId: past.checkpoint_id,
  });
  const again = await client.runs.wait(thread_id, "steps", {
    input: null,
    checkpointId: forked_again.checkpoint_id,
  });
  const at = await client.threads.getState(thread_id, past.checkpoint);
  const byId = await client.threads.getState(thread_id, checkpoint_id);
  const before = await client.threads.getHistory(thread_id, {
    before: { configurable: { checkpoint_id } },
  });
  const after = await client.threads.getHistory(thread_id, { limit: 20 });
  const show = (state) => [
    state.metadata.step,
    state.metadata.source,
    state.next,
    state.values,
    state.checkpoint,
    state.parent_checkpoint,
  ];
  return {
    history: history.map(show),
    ids: history.map((state) => [state.checkpoint_id, state.parent_checkpoint_id]),
    forked,
    replayed,
    forked_again,
    again,
    at: show(at),
    byId: byId.values,
    before: before.map(show),
    after: after.map(show),
  };
}

export async function joinsAStream(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  const run = await client.runs.create(thread_id, "slow", {
    input: { seconds: 1 },
    streamMode: ["values", "updates"],
    streamResumable: true,
  });
  const whole = await collect(client.runs.joinStream(thread_id, run.run_id, { lastEventId: "-1" }));
  const marks = whole.filter((part) => part.event !== "metadata");
  const join = (lastEventId, streamMode) =>
    collect(client.runs.joinStream(thread_id, run.run_id, { lastEventId, streamMode }));
  const show = (parts) => parts.map((part) => [part.event, part.data]);
  return {
    whole: show(whole),
    rest: show(await join(marks[1].id)),
    none: show(await join(marks.at(-1).id)),
    once: show(await join("-1", "updates")),
    joined: await client.runs.join(thread_id, run.run_id),
    ended: (await client.runs.get(thread_id, run.run_id)).status,
  };
}

/** A connection breaks: the client comes back by itself, with the id of the last event. */
export async function reconnects(url) {
  const requests = [];
  const breaking = async (address, init) => {
    const answer = await fetch(address, init);
    const headers = new Headers(init.headers);
    if (!String(address).includes("/stream")) return answer;
    requests.push([init.method, headers.has("last-event-id")]);
    if (requests.length > 1) return answer;
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    let broken = false;
    const body = new ReadableStream({
      async pull(controller) {
        if (broken) {
          await new Promise((done) => setTimeout(done, 200)); // what an error overtakes is lost
          return controller.error(new TypeError("terminated"));
        }
        const { value, done } = await reader.read();
        if (done) return controller.close();
        broken = decoder.decode(value, { stream: true }).includes("begin");
        controller.enqueue(value);
      },
    });
    return new Response(body, { status: answer.status, headers: answer.headers });
  };
  const client = new Client({
    apiUrl: url,
    apiKey: null,
    callerOptions: { fetch: breaking, maxRetries: 0 },
  });
  const { thread_id } = await client.threads.create();
  const parts = await collect(
    client.runs.stream(thread_id, "slow", {
      input: { seconds: 1 },
      streamMode: "updates",
      streamResumable: true,
      onDisconnect: "continue",
    }),
  );
  return { requests, parts: parts.map((part) => [part.event, part.data]) };
}

export async function cancels(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  const run = await client.runs.create(thread_id, "slow", {
    input: { seconds: 20 },
    streamMode: "updates",
    streamResumable: true,
  });
  const parts = [];
  for await (const part of client.runs.joinStream(thread_id, run.run_id, { lastEventId: "-1" })) {
    parts.push([part.event, part.data]);
    if (part.event === "updates") await client.runs.cancel(thread_id, run.run_id, true);
  }
  const thread = await client.threads.get(thread_id);
  const again = await client.runs.wait(thread_id, "slow", { input: { seconds: 0 } });
  return {
    parts,
    ended: (await client.runs.get(thread_id, run.run_id)).status,
    thread: thread.status,
    again,
  };
}

export async function refusesASecondRun(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  const run = await client.runs.create(thread_id, "slow", { input: { seconds: 20 } });
  const hasBegun = async () => (await client.threads.getState(thread_id)).values.log?.length;
  while (!(await hasBegun())) await new Promise((resolve) => setTimeout(resolve, 50));
  const second = await refusal(
    client.runs.wait(thread_id, "slow", { input: { seconds: 0 }, multitaskStrategy: "reject" }),
  );
  const third = await client.runs.wait(thread_id, "slow", {
    input: { seconds: 0 },
    multitaskStrategy: "interrupt",
  });
  return {
    second: second.status,
    first: (await client.runs.get(thread_id, run.run_id)).status,
    third,
  };
}

export async function failures(url) {
  const client = connect(url);
  const { thread_id } = await client.threads.create();
  const input = { text: "badly" };
  const waited = await refusal(client.runs.wait(thread_id, "failing", { input }));
  const quiet = await client.runs.wait(thread_id, "failing", { input, raiseError: false });
  const parts = await collect(
    client.runs.stream(thread_id, "failing", { input, streamMode: "values" }),
  );
  const run = await client.runs.create(thread_id, "failing", { input });
  const joined = await client.runs.join(thread_id, run.run_id);
  const thread = await client.threads.get(thread_id);
  const state = await client.threads.getState(thread_id);
  const none = crypto.randomUUID();
  return {
    waited,
    quiet,
    parts: parts.slice(1).map((part) => [part.event, part.data]),
    joined,
    thread: thread.status,
    state: [state.next, state.tasks.map((task) => [task.name, task.error])],
    recovered: await client.runs.wait(thread_id, "failing", { input: { text: "well" } }),
    thread404: (await refusal(client.threads.getState(none))).status,
    run404: (await refusal(client.runs.get(thread_id, none))).status,
    strategy: (
      await refusal(client.runs.create(thread_id, "echo", { input, multitaskStrategy: "no" }))
    ).status,
    badId: (await refusal(client.threads.get("no-id"))).status,
  };
}

export async function assistants(url) {
  const client = connect(url);
  const mark = crypto.randomUUID();
  const made = await client.assistants.create({
    graphId: "context",
    name: "loud one",
    context: { tone: "loud" },
    metadata: { mark },
  });
  const id = made.assistant_id;
  const first = await client.runs.wait(null, id, { input: {} });
  await client.assistants.update(id, { context: { tone: "soft", size: 1 } });
  const second = await client.runs.wait(null, id, { input: {} });
  const third = await client.runs.wait(null, id, { input: {}, context: { size: 9 } });
  const versions = await client.assistants.getVersions(id);
  const found = await client.assistants.search({ metadata: { mark } });
  const schemas = await client.assistants.getSchemas(id);
  const graph = await client.assistants.getGraph(id);
  const defaults = await client.assistants.search({
    graphId: "context",
    metadata: { created_by: "system" },
  });
  await client.assistants.delete(id);
  return {
    made: [made.version, made.name, made.context, made.config],
    first,
    second,
    third,
    versions: versions.map((one) => [one.version, one.context]),
    found: found.map((one) => [one.assistant_id, one.version, one.context]),
    schemas: [Object.keys(schemas).sort(), schemas.context_schema],
    graph,
    defaults: defaults.map((one) => [one.name, one.graph_id, one.assistant_id]),
    deleted: (await refusal(client.assistants.get(id))).status,
  };
}

export async function stores(url) {
  const client = connect(url);
  const space = ["javascript", crypto.randomUUID()];
  await client.store.putItem(space, "a", { text: "one", kind: 1 });
  await client.store.putItem(space, "b", { text: "two", kind: 2 });
  const got = await client.store.getItem(space, "a");
  const found = await client.store.searchItems(space, { filter: { kind: 2 } });
  const spaces = await client.store.listNamespaces({ prefix: space });
  await client.store.deleteItem(space, "a");
  return {
    got: [got.key, got.value, got.namespace],
    found: found.items.map((item) => [item.key, item.value]),
    spaces,
    gone: await refusal(client.store.getItem(space, "a")),
  };
}

export async function stateless(url) {
  const client = connect(url);
  const parts = await collect(
    client.runs.stream(null, "progress", {
      input: { text: "x" },
      streamMode: ["custom", "values"],
    }),
  );
  const batch = await client.runs.createBatch([
    { assistantId: "echo", input: { text: "1" } },
    { assistantId: "echo", input: { text: "2" } },
  ]);
  return {
    parts: parts.slice(1).map((part) => [part.event, part.data]),
    waited: await client.runs.wait(null, "echo", { input: { text: "x" } }),
    batch: batch.length,
  };
}
