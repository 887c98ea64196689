/** Return what of a message a chat shows. */
export function message({ type, content, tool_calls, tool_call_id, name, id }) {
  const shown = { type, content };
  if (tool_calls?.length) shown.calls = tool_calls.map((call) => [call.name, call.args, call.id]);
  if (type === "tool") Object.assign(shown, { name, tool_call_id });
  if (type === "ai") shown.id = id;
  return shown;
}
