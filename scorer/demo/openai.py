"""The part of the OpenAI API that an emulated engine speaks: requests in, events out.

Prompts count bytes / 4 as tokens (a list of token ids counts itself); every answer is
exactly ``max_tokens`` long.
"""

import json

from pydantic import BaseModel, PositiveInt, model_validator

BYTES_PER_TOKEN = 4


class Message(BaseModel):
    """One message of a chat."""

    content: str


class GenerationRequest(BaseModel):
    """Body of a completion (``prompt``) or chat (``messages``) request; extra keys are ignored."""

    prompt: str | list[int] | None = None
    messages: list[Message] = []
    max_tokens: PositiveInt = 128
    stream: bool = False

    @model_validator(mode="after")
    def _asks_something(self) -> "GenerationRequest":
        if self.prompt is None and not self.messages:
            raise ValueError("one of prompt and messages must be given")
        return self

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt in tokens, at least 1."""
        if isinstance(self.prompt, list):
            return max(1, len(self.prompt))
        text = self.prompt or "".join(message.content for message in self.messages)
        return max(1, len(text.encode()) // BYTES_PER_TOKEN)


def event(model: str, tokens: int, *, chat: bool, done: bool) -> bytes:
    """Return the server-sent event that carries ``tokens`` tokens."""
    choice = _choice("delta", tokens, chat=chat, done=done)
    return b"data: " + json.dumps({"model": model, "choices": [choice]}).encode() + b"\n\n"


def answer(model: str, request: GenerationRequest, *, chat: bool) -> bytes:
    """Return the whole answer to a request that is not streamed."""
    choice = _choice("message", request.max_tokens, chat=chat, done=True)
    usage = {"prompt_tokens": request.prompt_tokens, "completion_tokens": request.max_tokens}
    return json.dumps({"model": model, "choices": [choice], "usage": usage}).encode()


def error(message: str) -> bytes:
    """Return the body of a 400 in vLLM's shape."""
    detail = {"message": message, "type": "BadRequestError", "param": None, "code": 400}
    return json.dumps({"error": detail}).encode()


def models(model: str) -> bytes:
    """Return the list of served models: ``model`` alone."""
    return json.dumps({"object": "list", "data": [{"id": model, "object": "model"}]}).encode()


def _choice(key: str, tokens: int, *, chat: bool, done: bool) -> dict[str, object]:
    text = " tok" * tokens
    content: dict[str, object] = {key: {"content": text}} if chat else {"text": text}
    return {"index": 0, **content, "finish_reason": "length" if done else None}
