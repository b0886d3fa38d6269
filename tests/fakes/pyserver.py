"""An MCP server on stdio for a plain Python 3: one tool, `shout`, which fails when asked nothing."""

import json
import sys

TOOL = {
    "name": "shout",
    "description": "Says it louder.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "pyserver", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    text = params["arguments"].get("text")
    said = text.upper() if text else "nothing to say"
    return {"content": [{"type": "text", "text": said}], "isError": not text}


print("pyserver is ready", file=sys.stderr, flush=True)
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply["result"] = answer(message["method"], message.get("params", {}))
    except Exception as error:
        reply["error"] = {"code": -32603, "message": repr(error)}
    sys.stdout.buffer.write(json.dumps(reply, ensure_ascii=False).encode() + b"\n")
    sys.stdout.buffer.flush()
