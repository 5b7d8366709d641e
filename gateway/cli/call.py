"""``call SERVER/TOOL JSON --as PRINCIPAL``: one call through the whole path, audited as an admin's."""

from __future__ import annotations

import argparse

from gateway.cli.output import Exit, Output, wants_json
from gateway.cli.remote import Question, inquire
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value


def run(args: argparse.Namespace) -> int:
    """Make the call and print its result; a refusal or a tool's error is a finding."""
    try:
        arguments = rawjson.decode_strict(args.arguments.encode())
    except JsonError as error:
        Output.errors().line(f"call: the arguments are {error}")
        return Exit.UNKNOWN
    if not isinstance(arguments, dict):
        Output.errors().line("call: the arguments must be a JSON object")
        return Exit.UNKNOWN
    body: Object = {"as": args.principal, "target": args.target, "arguments": arguments}
    answer = inquire("call", args, Question("/call", body=body))
    if answer is None:
        return Exit.UNKNOWN
    if wants_json(args):
        Output.standard().value(answer)
    else:
        show(answer, Output.standard())
    result = answer.get("result")
    if "error" in answer:
        Output.errors().line(f"what {args.principal} sees, and why not the rest: tools --as {args.principal}")
    return Exit.FINE if isinstance(result, dict) and result.get("isError") is not True else Exit.FINDING


def show(answer: Object, output: Output) -> None:
    """Print texts as they are and everything else as JSON."""
    error, result = answer.get("error"), answer.get("result")
    if isinstance(error, dict):
        output.line(f"error {error.get('code')}: {error.get('message')}")
    if not isinstance(result, dict):
        return
    content = result.get("content")
    shown = [_shown(block) for block in content] if isinstance(content, list) else []
    for text in shown:
        output.block(text)
    if "structuredContent" in result and not any(_says(text, result["structuredContent"]) for text in shown):
        output.line(rawjson.encode(result["structuredContent"]).decode())


def _says(text: str, value: Value) -> bool:
    """Tell whether a text is the same JSON, as servers repeat it for clients that read texts alone."""
    try:
        return rawjson.decode_value(text.encode()) == value
    except JsonError:
        return False


def _shown(block: Value) -> str:
    if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    return rawjson.encode(block).decode()
