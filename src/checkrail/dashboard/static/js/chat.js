// The chat: what was said is appended as text, and a reply grows while it comes.
const chat = document.querySelector("[data-chat]");
const form = chat?.querySelector("form[method=post]");
const log = document.getElementById("log");
let running = "";

if (form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  form.content.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.querySelector("[data-stop]").addEventListener("click", () => {
    if (running) post(`/ui/runs/${running}/cancel`, {});
  });
}

function post(url, values) {
  return fetch(url, {
    method: "POST",
    headers: { "X-CSRF-Token": document.body.dataset.csrf },
    body: new URLSearchParams(values),
  });
}

function add(tag, className, text, parent = log) {
  const element = document.createElement(tag);
  element.className = className;
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function addMessage(role, name, text) {
  const article = add("article", `message ${role}`);
  add("div", "role", name, article);
  const body = add("pre", "", text, article);
  article.scrollIntoView({ block: "nearest" });
  return body;
}

function addChips(chips) {
  if (!chips.length) return;
  const place = add("div", "chips");
  for (const { text, reason, kind, url } of chips) {
    const chip = add("a", `chip ${kind}`, text, place);
    chip.href = url;
    chip.title = reason;
  }
}

function addRefusal(title, reason, runId) {
  const banner = add("div", "banner blocked slim");
  const inner = add("div", "", undefined, banner);
  add("strong", "", title, inner);
  add("div", "small", reason, inner);
  if (runId) add("a", "button", "Run", banner).href = `/ui/runs/${runId}`;
}

async function send() {
  const text = form.content.value.trim();
  if (!text || running === "sending") return;
  document.querySelector("[data-hint]")?.remove();
  addMessage("user", "you", text);
  form.content.value = "";
  busy(true);
  let reply = null;
  const asked = new Set();
  const agent = document.querySelector("[data-agent]").value;
  try {
    const answer = await post(chat.dataset.chat, { content: text, agent, session: chat.dataset.session });
    if (!answer.ok) throw new Error(`The server answered ${answer.status}`);
    for await (const { name, data } of frames(answer)) {
      if (data.session_id && !chat.dataset.session) {
        chat.dataset.session = data.session_id;
        history.replaceState({}, "", `/ui/chat/${data.session_id}`);
      }
      if (name === "message") running = data.run_id ?? "";
      else if (name === "delta") {
        reply ??= addMessage("assistant", agent, "");
        reply.textContent += data.text;
      } else if (name === "hooks") addChips(data);
      else if (name === "status") {
        for (const id of data.approval_ids ?? []) {
          if (asked.has(id)) continue;
          asked.add(id);
          const place = add("div", "chips");
          add("a", "chip waiting", "A person is asked: answer", place).href = `/ui/approvals/${id}`;
        }
      } else if (name === "reply") endReply(data, reply, agent);
      else if (name === "refused") addRefusal(data.by ? `blocked by ${data.by}` : "refused", data.message, "");
    }
  } catch (error) {
    addRefusal("The connection was lost", String(error.message ?? error), "");
  }
  busy(false);
}

function endReply(data, reply, agent) {
  if (data.status === "answered") {
    if (reply) reply.textContent = data.reply ?? "";
    else addMessage("assistant", agent, data.reply ?? "");
    return;
  }
  reply?.closest("article").remove();
  const by = data.refusal?.hook;
  addRefusal(by ? `${data.status} by ${by}` : data.status, data.refusal?.reason ?? data.error ?? "", data.run_id);
}

function busy(on) {
  if (!on) running = "";
  form.querySelector("[data-stop]").hidden = !on;
  form.querySelector("[data-send]").disabled = on;
  log.setAttribute("aria-busy", String(on));
  if (!on) form.content.focus();
}

async function* frames(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part)?.[1];
      const data = /^data: (.*)$/m.exec(part)?.[1];
      if (name && data) yield { name, data: JSON.parse(data) };
    }
  }
}
