// What a front end of the AG-UI protocol does with @ag-ui/langgraph.
import { LangGraphAgent } from "@ag-ui/langgraph";

// These depend, on both servers, on which of two stream modes is first with a token; so does whether
// a tool call is told a second time.
const RACING = new Set([
  "RAW",
  "STATE_SNAPSHOT",
  "MESSAGES_SNAPSHOT",
  "TEXT_MESSAGE_CONTENT",
  "TOOL_CALL_ARGS",
]);
const VOLATILE = new Set(["rawEvent", "timestamp", "runId", "threadId"]);

function open(deploymentUrl, graphId, options = {}) {
  return new LangGraphAgent({ deploymentUrl, graphId, threadId: crypto.randomUUID(), ...options });
}

async function run(agent, parameters) {
  const events = [];
  const onEvent = ({ event }) => {
    const { type, toolCallId } = event;
    const isRepeated = (one) => toolCallId && one.type === type && one.toolCallId === toolCallId;
    if (!RACING.has(type) && !events.some(isRepeated)) events.push(show(event));
  };
  let error;
  try {
    await agent.runAgent(parameters, { onEvent });
  } catch (failure) {
    error = String(failure);
  }
  return { events, error };
}

const show = (event) =>
  Object.fromEntries(Object.entries(event).filter(([key]) => !VOLATILE.has(key)));

const said = (agent) =>
  agent.messages.map(({ role, content, id, toolCalls }) => ({ role, content, id, toolCalls }));

export async function runsAgents(url) {
  const agent = open(url, "agent");
  agent.addMessage({ id: "human-1", role: "user", content: "the weather?" });
  const first = await run(agent);
  agent.addMessage({ id: "human-2", role: "user", content: "thanks" });
  const second = await run(agent);
  return { first, second, messages: said(agent), state: agent.state };
}

export async function interrupts(url) {
  const agent = open(url, "approval");
  agent.setState({ text: "x" });
  const asked = await run(agent);
  const resumed = await run(agent, { forwardedProps: { command: { resume: "yes" } } });
  return { asked, resumed, state: agent.state };
}

export async function answersStructuredInterrupts(url) {
  const agent = open(url, "approval", { emitInterruptOutcome: true });
  agent.setState({ text: "x" });
  const asked = await run(agent);
  const [{ id }] = agent.pendingInterrupts;
  const resumed = await run(agent, {
    resume: [{ interruptId: id, status: "resolved", payload: "yes" }],
  });
  return { asked, resumed, state: agent.state };
}

/** A person edits an earlier message: the agent goes back to the checkpoint before it. */
export async function regenerates(url) {
  const agent = open(url, "agent");
  agent.addMessage({ id: "human-1", role: "user", content: "one" });
  await run(agent);
  agent.addMessage({ id: "human-2", role: "user", content: "two" });
  await run(agent);
  agent.setMessages(agent.messages.slice(0, 1));
  const again = await run(agent);
  return { again, messages: said(agent) };
}

export async function fails(url) {
  const agent = open(url, "failing");
  agent.setState({ text: "badly" });
  return run(agent);
}

export async function streamsSubgraphs(url) {
  const agent = open(url, "nested");
  agent.setState({ text: "x" });
  const ended = await run(agent, { forwardedProps: { streamSubgraphs: true } });
  return { ended, state: agent.state };
}

export async function aborts(url) {
  const agent = open(url, "slow");
  agent.setState({ seconds: 20 });
  const ended = new Promise((resolve) => {
    agent
      .runAgent(
        {},
        {
          onStepStartedEvent: ({ event }) => event.stepName === "pause" && agent.abortRun(),
        },
      )
      .then(
        () => resolve("ended"),
        (error) => resolve(String(error)),
      );
  });
  return { ended: await ended };
}

export async function capabilities(url) {
  return open(url, "agent").getCapabilities();
}
