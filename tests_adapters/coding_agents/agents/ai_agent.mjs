// A small coding agent on Vercel's SDK: node ai_agent.mjs API PROMPT
import { spawnSync } from "node:child_process";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [, , api, prompt] = process.argv;
const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });
const anthropic = createAnthropic({ baseURL: process.env.ANTHROPIC_BASE_URL });
const models = {
  chat: () => openai.chat("model-1"),
  responses: () => openai.responses("model-1"),
  messages: () => anthropic("model-1"),
};

function execute({ command }) {
  const ended = spawnSync("sh", ["-c", command], { encoding: "utf8" });
  return ended.stdout + ended.stderr;
}

const shell = tool({
  description: "Run a command in a shell",
  inputSchema: z.object({ command: z.string() }),
  execute,
});

const answer = streamText({
  model: models[api](),
  prompt,
  providerOptions: { openai: { store: false } },
  tools: { shell },
  stopWhen: stepCountIs(10),
  onError() {},
});

for await (const part of answer.fullStream) {
  if (part.type === "text-delta") process.stdout.write(part.text);
  if (part.type === "text-end") process.stdout.write("\n");
  if (part.type === "error") {
    console.error(`${part.error.name}: ${part.error.message}`);
    process.exitCode = 1;
  }
}
