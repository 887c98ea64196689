// A small coding agent on the official SDKs: node sdk_agent.mjs API PROMPT
import { spawnSync } from "node:child_process";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [, , api, prompt] = process.argv;
const model = "model-1";
const description = "Run a command in a shell";
const schema = {
  type: "object",
  properties: { command: { type: "string" } },
  required: ["command"],
  additionalProperties: false,
};

function run({ command }) {
  const ended = spawnSync("sh", ["-c", command], { encoding: "utf8" });
  return ended.stdout + ended.stderr;
}

async function useChat() {
  const client = new OpenAI();
  const tools = [{ type: "function", function: { name: "shell", description, parameters: schema } }];
  const messages = [{ role: "user", content: prompt }];
  for (;;) {
    const stream = client.chat.completions.stream({ model, messages, tools });
    const { message } = (await stream.finalChatCompletion()).choices[0];
    if (message.content) console.log(message.content);
    if (!message.tool_calls?.length) return;
    messages.push({ role: "assistant", content: message.content, tool_calls: message.tool_calls });
    for (const call of message.tool_calls) {
      const content = run(JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}

async function useResponses() {
  const client = new OpenAI();
  const tools = [{ type: "function", name: "shell", description, parameters: schema, strict: true }];
  const input = [{ role: "user", content: prompt }];
  for (;;) {
    const stream = client.responses.stream({ model, input, tools, store: false });
    const { output, output_text: text } = await stream.finalResponse();
    if (text) console.log(text);
    input.push(...output.map(({ parsed_arguments, ...item }) => item));
    const calls = output.filter((item) => item.type === "function_call");
    if (!calls.length) return;
    for (const call of calls) {
      const found = run(JSON.parse(call.arguments));
      input.push({ type: "function_call_output", call_id: call.call_id, output: found });
    }
  }
}

async function useMessages() {
  const client = new Anthropic();
  const tools = [{ name: "shell", description, input_schema: schema }];
  const messages = [{ role: "user", content: prompt }];
  for (;;) {
    const stream = client.messages.stream({ model, max_tokens: 1000, messages, tools });
    const { content } = await stream.finalMessage();
    for (const block of content) if (block.type === "text") console.log(block.text);
    messages.push({ role: "assistant", content });
    const uses = content.filter((block) => block.type === "tool_use");
    if (!uses.length) return;
    const results = uses.map((use) => ({
      type: "tool_result",
      tool_use_id: use.id,
      content: run(use.input),
    }));
    messages.push({ role: "user", content: results });
  }
}

try {
  await { chat: useChat, responses: useResponses, messages: useMessages }[api]();
} catch (error) {
  console.error(`${error.constructor.name}: ${error.message}`);
  process.exitCode = 1;
}
