"""The loss is on what the agent said, token by token, and on nothing else."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `local` is not installed")

from training_world import call, make_world, play  # noqa: E402

from awm.models.chat import text_message  # noqa: E402
from awm.train.rendering import ChatRenderer, check_rendering  # noqa: E402
from awm.train.rows import IGNORED, Collator, make_row  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

WORLD = make_world(2)
IDS = list(WORLD.examples)
LOOK = call("retrieve", query="cost")


def conversation(question_id: str, answer: str) -> list[Any]:
    shown = WORLD.open_episode(question_id)
    shown.step(text_message("assistant", LOOK))
    page = shown.result().pages_shown[0]
    note = call("update_memory", page=page, finding="The cost of Acme is 4172.")
    return play(WORLD, question_id, [LOOK, note, answer])


def test_every_token_of_a_row_is_masked_as_it_should_be(renderer: ChatRenderer) -> None:
    messages = conversation(IDS[0], "4172")
    row = make_row(renderer, messages)
    tokenizer = renderer.tokenizer
    start, end = (tokenizer.convert_tokens_to_ids(t) for t in ("<|im_start|>", "<|im_end|>"))
    speaker = tokenizer("assistant\n", add_special_tokens=False)["input_ids"]

    expected, position = [IGNORED] * len(row.ids), 0
    while position < len(row.ids):
        opening = [start, *speaker]
        if row.ids[position : position + len(opening)] != opening:
            position += 1
            continue
        position += len(opening)
        stop = row.ids.index(end, position) + 1
        expected[position:stop] = row.ids[position:stop]
        position = stop

    assert row.labels == expected
    said = [m.text + "<|im_end|>" for m in messages if m.role == "assistant"]
    assert tokenizer.decode([label for label in row.labels if label != IGNORED]) == "".join(said)
    assert row.n_images == 3


def test_no_image_place_and_no_tool_text_is_trained_on(renderer: ChatRenderer) -> None:
    row = make_row(renderer, conversation(IDS[0], "4172"))
    pairs = list(zip(row.ids, row.labels, strict=True))
    places = [label for token, label in pairs if token == renderer.image_token_id]

    assert len(places) == renderer.n_features(row.fields) == 90
    assert set(places) == {IGNORED}


def test_a_batch_pads_on_the_right_and_joins_the_images(renderer: ChatRenderer) -> None:
    rows = [make_row(renderer, conversation(id_, "4172")) for id_ in IDS]
    short = make_row(renderer, play(WORLD, IDS[0], ["No."]))
    batch = Collator(renderer, [*rows, short].__getitem__)([{"row": 0}, {"row": 2}, {"row": 1}])

    n = len(short.ids)
    assert batch["input_ids"][1, :n].tolist() == short.ids
    assert set(batch["input_ids"][1, n:].tolist()) == {renderer.tokenizer.pad_token_id}
    assert batch["labels"][1].tolist() == short.labels + [IGNORED] * (batch["labels"].shape[1] - n)
    assert batch["attention_mask"][1].sum() == n
    assert len(batch["image_grid_thw"]) == 6
    assert batch["mm_token_type_ids"].sum() == 6 * 30


def test_a_conversation_in_pieces_is_the_conversation_as_a_whole(renderer: ChatRenderer) -> None:
    check_rendering(renderer, conversation(IDS[1], "Not answerable"))


def test_the_model_takes_a_batch(renderer: ChatRenderer, policy: Any) -> None:
    rows = [make_row(renderer, conversation(id_, "4172")) for id_ in IDS]
    batch = Collator(renderer, rows.__getitem__)([{"row": 0}, {"row": 1}])

    loss = policy[0](**batch).loss

    assert loss.isfinite()
