"""The sight test: what the model says must depend on what the page shows.

Two pages differ in nothing but a number. The likelihood of that number, after the page came as a
tool's image exactly as in training, must differ between them. Where images are dropped on the way,
both likelihoods are equal to the last digit, and the loss curve would show nothing.

Imports torch: import this module inside functions, after `awm._extras.require`.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from PIL import Image, ImageDraw, ImageFont

from awm.documents.render import RenderSettings, encode_rgb
from awm.models.chat import Block, ImageBlock, Message, TextBlock, ToolCall, text_message
from awm.train.rendering import ChatRenderer
from awm.train.rows import IGNORED, batch_rows, make_row

WIDTH_PX, HEIGHT_PX = 80, 96
_NUMBERS = ("4172", "9385")


def page_block(label: str, number: str) -> tuple[Block, Block]:
    """Draw a page that states a number, with its label."""
    page = Image.new("RGB", (WIDTH_PX, HEIGHT_PX), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default_imagefont()
    draw.text((1, 2), "Acme", fill="black", font=font)
    draw.text((1, 18), "cost:", fill="black", font=font)
    draw.text((49, 18), number, fill="black", font=font)
    image = encode_rgb(page, RenderSettings(media_type="image/png"))
    return TextBlock(label), ImageBlock(image, 1)


def sight_gap(model: Any, renderer: ChatRenderer) -> float:
    """Give the difference of an answer's log-likelihood between two pages, in nats."""
    first, second = (answer_loglikelihood(model, renderer, number) for number in _NUMBERS)
    return abs(first - second)


def answer_loglikelihood(model: Any, renderer: ChatRenderer, number: str) -> float:
    """Give the log-likelihood of the first number's answer where the page shows `number`."""
    call = ToolCall("retrieve", json.dumps({"query": "cost"}))
    messages = (
        text_message("user", "What is the cost of Acme?"),
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", name="retrieve", content=page_block("page 1 of 9:", number)),
        text_message("assistant", _NUMBERS[0]),
    )
    batch = batch_rows(renderer, [make_row(renderer, messages)])
    labels = batch.pop("labels")[0, 1:]
    answer = len(renderer.turn(messages[-1]))
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            logits = model(**{name: value.to(device) for name, value in batch.items()}).logits
    finally:
        model.train(was_training)
    logprobs = logits[0, :-1].float().log_softmax(-1)
    places = (labels != IGNORED).nonzero()[-answer:, 0]
    return float(logprobs[places, labels[places].to(device)].sum())
