"""What the reference server offers: every tool, prompt and resource that the official suite calls by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV: Final = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="

SERVER_INFO: Final[Json] = {"name": "reference", "version": "1.0.0"}
CAPABILITIES: Final[Json] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True},
    "completions": {},
    "logging": {},
}
FROM_HEADER: Final = "x-mcp-header"


def _tool(name: str, description: str, properties: Mapping[str, object] | None = None, *required: str) -> Json:
    schema: Json = {"type": "object", "properties": dict(properties or {})}
    if required:
        schema["required"] = list(required)
    return {"name": name, "description": description, "inputSchema": schema}


_TEXT: Final[Json] = {"type": "string"}

SCHEMA_2020: Final[Json] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

TOOLS: Final[tuple[Json, ...]] = (
    _tool("test_simple_text", "Returns text."),
    _tool("test_image_content", "Returns an image."),
    _tool("test_audio_content", "Returns a sound."),
    _tool("test_embedded_resource", "Returns a resource inside the result."),
    _tool("test_multiple_content_types", "Returns text, an image and a resource."),
    _tool("test_tool_with_logging", "Logs three times while it runs."),
    _tool("test_logging_tool", "Logs once while it runs."),
    _tool("test_error_handling", "Always fails."),
    _tool("test_tool_with_progress", "Tells its progress three times."),
    _tool("test_reconnection", "Ends its stream before its result is there."),
    _tool("test_sampling", "Asks the client's model.", {"prompt": _TEXT}, "prompt"),
    _tool("test_elicitation", "Asks the user.", {"message": _TEXT}, "message"),
    _tool("test_elicitation_sep1034_defaults", "Asks with a default of every type."),
    _tool("test_elicitation_sep1330_enums", "Asks with every form of an enumeration."),
    _tool("test_missing_capability", "Needs a client that samples."),
    _tool("test_streaming_elicitation", "Tells its progress, then asks the user."),
    _tool("test_trigger_tool_change", "Changes the list of tools."),
    _tool("test_trigger_prompt_change", "Changes the list of prompts."),
    _tool("test_input_required_result_elicitation", "Asks for a name."),
    _tool("test_input_required_result_sampling", "Asks the model for a capital."),
    _tool("test_input_required_result_list_roots", "Asks for the client's roots."),
    _tool("test_input_required_result_request_state", "Asks, and hands out a state."),
    _tool("test_input_required_result_multiple_inputs", "Asks three things at once."),
    _tool("test_input_required_result_multi_round", "Asks twice."),
    _tool("test_input_required_result_tampered_state", "Asks, and refuses a changed state."),
    _tool("test_input_required_result_capabilities", "Asks only what the client can take."),
    _tool("test_header_argument", "Takes an argument from a header.", {"region": {**_TEXT, FROM_HEADER: "Region"}}),
    {
        "name": "json_schema_2020_12_tool",
        "description": "Takes arguments of a schema with everything in it.",
        "inputSchema": SCHEMA_2020,
    },
)
CHANGED_TOOL: Final = _tool("test_changed_tool", "Is listed after every other change.")


def _prompt(name: str, description: str, *arguments: str) -> Json:
    prompt: Json = {"name": name, "description": description}
    if arguments:
        prompt["arguments"] = [
            {"name": argument, "description": f"The argument {argument}.", "required": True} for argument in arguments
        ]
    return prompt


PROMPTS: Final[tuple[Json, ...]] = (
    _prompt("test_simple_prompt", "A prompt without arguments."),
    _prompt("test_prompt_with_arguments", "A prompt with two arguments.", "arg1", "arg2"),
    _prompt("test_prompt_with_embedded_resource", "A prompt with a resource.", "resourceUri"),
    _prompt("test_prompt_with_image", "A prompt with an image."),
    _prompt("test_input_required_result_prompt", "A prompt that asks."),
)
CHANGED_PROMPT: Final = _prompt("test_changed_prompt", "Is listed after every other change.")

RESOURCES: Final[tuple[Json, ...]] = (
    {"uri": "test://static-text", "name": "text", "description": "A text.", "mimeType": "text/plain"},
    {"uri": "test://static-binary", "name": "binary", "description": "An image.", "mimeType": "image/png"},
    {"uri": "test://watched-resource", "name": "watched", "description": "To be watched.", "mimeType": "text/plain"},
)
TEMPLATES: Final[tuple[Json, ...]] = (
    {
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "Data of an id.",
        "mimeType": "application/json",
    },
)


def text(words: str) -> Json:
    """Return a block of text."""
    return {"type": "text", "text": words}


IMAGE: Final[Json] = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO: Final[Json] = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}


def resource(uri: str, mime: str, words: str) -> Json:
    """Return a block that carries a resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


PLAIN: Final[dict[str, list[Json]]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [AUDIO],
    "test_embedded_resource": [
        resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
}
"""Tools whose result is always the same."""


def form(message: str, properties: Json, *required: str) -> tuple[str, Json]:
    """Return a question to the user."""
    schema: Json = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return "elicitation/create", {"message": message, "requestedSchema": schema}


def sampling(words: str) -> tuple[str, Json]:
    """Return a question to the model."""
    return "sampling/createMessage", {"messages": [{"role": "user", "content": text(words)}], "maxTokens": 100}


ROOTS: Final[tuple[str, Json]] = ("roots/list", {})

DEFAULTS: Final[Json] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}


def _titled(*titles: str) -> list[Json]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


_OPTIONS: Final = ["option1", "option2", "option3"]
ENUMS: Final[Json] = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _titled("First Option", "Second Option", "Third Option")},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")}},
}
