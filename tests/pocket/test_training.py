"""What the pocket models are trained on, and a whole training of a few steps."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `local` (torch, transformers) is not installed")
pytest.importorskip("transformers", reason="the extra `local` is not installed")

import torch

from awm.benchmarks.pocket_world import (
    KEYS,
    NAMES,
    NOT_ANSWERABLE,
    PocketCase,
    PocketPage,
    belongs_to,
    training_cases,
)
from awm.pocket.encoding import UNKNOWN, Encoder
from awm.pocket.guidance import GUIDED_HEAD, GUIDED_LAYER, gaze_loss
from awm.pocket.imitation import Mix
from awm.pocket.memories import SORTS, MemoryMaker
from awm.pocket.model import N_VISUAL, build_policy, count_parameters
from awm.pocket.reading_rows import ReadingRows
from awm.pocket.rows import FACT_WEIGHT, RowMaker, make_batch
from awm.pocket.schedule import Schedule
from awm.pocket.teacher import SLIPS, Slip
from awm.pocket.tokenizer import build_tokenizer
from awm.pocket.train import PocketTraining, train_pocket
from awm.pocket.vision import LABEL_SIZES, PAIRS, patch_labels, share_digits

pytestmark = pytest.mark.filterwarnings("default")

CASES = list(itertools.islice(training_cases(11), 200))


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(build_tokenizer(), N_VISUAL)


@pytest.fixture
def maker(encoder: Encoder) -> RowMaker:
    return RowMaker(encoder, Random(0))


def test_labels_of_a_page_say_what_stands_in_each_patch() -> None:
    labels = patch_labels(PocketPage("Acme", (("tax", "0417"),))).reshape(6, 5, len(LABEL_SIZES))

    assert [chr(code + 31) for code in labels[0, 0, :2]] == ["A", "c"]
    assert [chr(code + 31) for code in labels[1, 3, :2]] == ["0", "4"]
    assert labels[1, :, 2].tolist() == [KEYS.index("tax")] * 5
    assert labels[1, :, 3].tolist() == [2, 2, 2, 0, 1]
    assert labels[:, :, 4].tolist() == [[NAMES.index("Acme")] * 5] * 6
    assert labels[1, :, 5].tolist() == [100, 100, 100, 4, 17]
    assert labels[0, :, 2].tolist() == [len(KEYS)] * 5
    assert not labels[2:, :, :2].any()


def test_every_label_is_within_its_size() -> None:
    for case in CASES[:20]:
        for page in case.pages:
            assert (patch_labels(page) < LABEL_SIZES).all()


def test_only_the_policys_tokens_of_a_trajectory_are_trained(
    maker: RowMaker, encoder: Encoder
) -> None:
    case = next(c for c in CASES if c.kind == "lookup")
    row = maker.trajectory(case, generic=False)
    trained = encoder.tokenizer.decode(
        [token for token, weight in zip(row.ids, row.weights, strict=True) if weight]
    )

    assert trained.count("<tool_call>") == 2
    assert trained.endswith(f"{case.answer}<|im_end|>")
    assert f"The {case.key} of {case.subjects[0]} is {case.answer}." in trained
    assert "page labelled" not in trained
    assert "Saved" not in trained
    assert {0.0, 1.0, FACT_WEIGHT} == set(row.weights)


def test_a_drill_asks_only_for_what_its_pages_say(maker: RowMaker, encoder: Encoder) -> None:
    for case in CASES[:60]:
        row = maker.drill(case)
        text = encoder.tokenizer.decode([t for t in row.ids if t != encoder.image])
        _, _, items = text.partition("\n</tool_response>")
        facts = {
            f"{key} of {page.subject}": f"page {n} is {value}"
            for n, page in zip(row.numbers, row.pages, strict=True)
            for key, value in page.facts
        }
        for item in items.removesuffix("<|im_end|>").split("<|im_end|>"):
            asked = next((q for q in facts if item.startswith(q)), None)
            if "?" in item:
                words = re.findall(r"[\w]+", item.partition("?")[0])
                key, one, other = words[-4], words[-3], words[-1]
                values = {name: facts[f"{key} of {name}"][-4:] for name in (one, other)}
                winner = max(values, key=lambda name: values[name])
                is_subject = item.startswith("Which has")
                answer = winner if is_subject else values[winner]
                assert item.partition("?")[2] == (
                    f"<think>{one} is {values[one]}, {other} is {values[other]}: {winner}.</think>"
                    f"{answer}"
                )
            elif asked:
                assert item == asked + facts[asked]
            else:
                assert item.endswith(NOT_ANSWERABLE)


def test_the_guided_head_is_pointed_at_what_is_written_next(
    maker: RowMaker, encoder: Encoder
) -> None:
    n_checked = 0
    for case in CASES[:60]:
        for row in (maker.trajectory(case), maker.drill(case), maker.comparison_drill()):
            labels = np.concatenate([np.empty((0, 6), int), *map(patch_labels, row.pages)])
            images = [i for i, token in enumerate(row.ids) if token == encoder.image]
            for at, places in row.sources.items():
                assert max(places) < at
                held = [
                    PAIRS[labels[images.index(place), 5]]
                    if place in images
                    else encoder.tokenizer.decode([row.ids[place]])
                    for place in places
                ]
                written = encoder.tokenizer.decode([row.ids[at]])
                assert set(held) == {written}
                n_checked += 1
    assert n_checked > 500


def test_a_comparison_drill_gives_the_values_and_trains_the_answer_alone(
    maker: RowMaker, encoder: Encoder
) -> None:
    row = maker.comparison_drill(n_items=40)
    _, *items = re.split(
        "(?=What is the larger|Which has the larger)", encoder.tokenizer.decode(row.ids)
    )
    trained = [token for token, weight in zip(row.ids, row.weights, strict=True) if weight]
    answers = encoder.tokenizer.decode(trained).removesuffix("<|im_end|>").split("<|im_end|>")

    assert not row.pages
    assert len(items) == len(answers) == 40
    for item, answer in zip(items, answers, strict=True):
        pairs = re.findall(r"(\w+) is (\d{4})", item)
        winner, value = max(pairs, key=lambda pair: pair[1])
        wanted = winner if item.startswith("Which") else value
        assert answer == f"{winner}.</think>{wanted}"
        assert len(pairs) == 2
        assert all(belongs_to(subject, value) == "train" for subject, value in pairs)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_shown_and_not_trained(
    maker: RowMaker, encoder: Encoder, monkeypatch: pytest.MonkeyPatch, slip: Slip
) -> None:
    monkeypatch.setattr("awm.pocket.rows.SLIP_SHARE", 1.0)
    monkeypatch.setattr("awm.pocket.rows.SLIPS", (slip,))
    case = next(c for c in CASES if c.kind == "larger_value")
    row = maker.trajectory(case)
    trained = encoder.tokenizer.decode(
        [token for token, weight in zip(row.ids, row.weights, strict=True) if weight]
    )
    monkeypatch.setattr("awm.pocket.rows.SLIP_SHARE", 0.0)
    maker_without = RowMaker(encoder, Random(0), generic_share=float("lists its" in trained))
    clean = maker_without.trajectory(case)
    wanted = encoder.tokenizer.decode(
        [token for token, weight in zip(clean.ids, clean.weights, strict=True) if weight]
    )

    assert trained == wanted
    assert len(row.ids) > len(clean.ids)
    assert len(row.sources) == len(clean.sources)


def test_the_guided_heads_attention_is_that_of_the_model(maker: RowMaker, encoder: Encoder) -> None:
    policy = build_policy(encoder.tokenizer)
    policy.set_attn_implementation({"text_config": "eager"})  # this kind gives its weights away
    attention = policy.model.language_model.layers[GUIDED_LAYER].self_attn
    kept: dict[str, Any] = {}
    attention.register_forward_pre_hook(lambda *c: kept.update(into=c[2]), with_kwargs=True)
    attention.register_forward_hook(lambda *c: kept.update(weights=c[2][1]))
    batch = make_batch([maker.trajectory(CASES[0], False), maker.drill(CASES[1])], encoder)

    with torch.no_grad():
        policy(**batch.inputs)
        into = kept["into"]
        loss = gaze_loss(attention, into["hidden_states"], into["position_embeddings"], batch)

    weights = kept["weights"][:, GUIDED_HEAD]
    shares = [weights[row, at - 1, places].sum() for row, at, places in batch.sources]
    assert loss.item() == pytest.approx(-torch.stack(shares).log().mean().item(), rel=1e-4)


def test_a_batch_knows_the_page_number_of_every_visual_token(
    maker: RowMaker, encoder: Encoder
) -> None:
    rows = [maker.trajectory(CASES[0]), maker.drill(CASES[1])]
    batch = make_batch(rows, encoder)
    is_image = batch.inputs["input_ids"] == encoder.image

    for i, row in enumerate(rows):
        numbers = batch.numbers_BT[i][is_image[i]].tolist()
        assert numbers == [n for n in row.numbers for _ in range(N_VISUAL)]
    assert (batch.numbers_BT[~is_image] == UNKNOWN).all()
    assert batch.inputs["pixel_values"].shape[0] == int(is_image.sum())


def test_a_batch_whose_images_are_missing_is_refused(maker: RowMaker, encoder: Encoder) -> None:
    row = maker.trajectory(CASES[0])
    row.pages.pop()
    row.numbers.pop()

    with pytest.raises(ValueError, match="90 image places for 2 images"):
        make_batch([row], encoder)


def _memories(sort: str, cases: list[PocketCase] = CASES) -> Iterator[tuple[PocketCase, str, str]]:
    maker = MemoryMaker(Random(3))
    for case in cases:
        memory = maker.make(case, sort)
        yield case, " ".join(f.text for f in memory.findings), memory.answer


@pytest.mark.parametrize("sort", ["generic", "nothing_but_distractors", "half", "broken", "empty"])
def test_a_memory_that_does_not_hold_the_answer_is_not_answerable(sort: str) -> None:
    for case, text, answer in _memories(sort):
        assert answer == NOT_ANSWERABLE
        facts = [f"The {case.key} of {subject} is " for subject in case.subjects]
        if facts:
            assert not all(fact in text and _digits_follow(text, fact) for fact in facts)


def _digits_follow(text: str, fact: str) -> bool:
    return text.partition(fact)[2][:4].isdigit()


def test_a_wrong_number_gives_that_number() -> None:
    lookups = [case for case in CASES if case.kind == "lookup"]
    for case, text, answer in _memories("wrong_number", lookups):
        assert f"The {case.key} of {case.subjects[0]} is {answer}." in text


def test_good_memories_give_the_gold_answer() -> None:
    for sort in ("good", "good_in_a_crowd"):
        for case, _, answer in _memories(sort):
            assert answer == case.answer


def test_the_reader_never_sees_a_pair_of_the_test_split() -> None:
    for sort in SORTS:
        for _, text, _ in _memories(sort, CASES[:50]):
            words = text.replace(".", "").split()
            for name, value in zip(words, words[2:], strict=False):
                if name in NAMES and value.isdigit() and len(value) == 4:
                    assert belongs_to(name, value) == "train"


def test_a_reading_trains_the_answer_alone(encoder: Encoder) -> None:
    memory = MemoryMaker(Random(0)).make(CASES[0], "good")
    row = ReadingRows(encoder).row(memory)
    trained = [token for token, weight in zip(row.ids, row.weights, strict=True) if weight]

    assert encoder.tokenizer.decode(trained) == memory.reply + "<|im_end|>"


def test_the_reader_thinks_only_where_both_values_are_stated(encoder: Encoder) -> None:
    maker = MemoryMaker(Random(5))
    comparisons = [case for case in CASES if case.kind.startswith("larger")]
    for case in comparisons:
        both, half = maker.make(case, "wrong_number"), maker.make(case, "half")
        text = " ".join(finding.text for finding in both.findings)
        stated = dict(re.findall(rf"The {case.key} of (\w+) is (\d{{4}})", text))
        one, other = case.subjects

        assert half.reply == NOT_ANSWERABLE
        winner = max((one, other), key=lambda subject: stated[subject])
        assert both.reply == (
            f"<think>{one} is {stated[one]}, {other} is {stated[other]}: {winner}.</think>"
            f"{both.answer}"
        )
    lookup = next(case for case in CASES if case.kind == "lookup")
    assert maker.make(lookup, "good").reply == lookup.answer


def test_the_readers_guided_head_is_pointed_at_the_stated_value(encoder: Encoder) -> None:
    rows, maker = ReadingRows(encoder), MemoryMaker(Random(2))
    n_checked = 0
    for case in CASES:
        memory = maker.make(case, "good_in_a_crowd")
        row = rows.row(memory)
        wanted = {"lookup": 2, "count": 1, "unanswerable": 0, "larger_value": 6}.get(case.kind, 4)
        assert len(row.sources) == wanted
        for at, places in row.sources.items():
            assert [row.ids[place] for place in places] == [row.ids[at]]
            assert row.weights[at]
            n_checked += 1
    assert n_checked > 100


def test_the_learning_rate_goes_up_level_and_down() -> None:
    schedule = Schedule(steps=1000, rate=1e-3, seed=0, warm_up=100)

    assert schedule.rate_at(0) == pytest.approx(1e-5)
    assert schedule.rate_at(99) == schedule.rate_at(599) == pytest.approx(1e-3)
    assert schedule.rate_at(800) == pytest.approx(5e-4)
    assert schedule.rate_at(999) == pytest.approx(2e-5)


def test_pairs_of_digits_start_as_sums_of_their_digits() -> None:
    tokenizer = build_tokenizer()
    table = torch.nn.Parameter(torch.randn(len(tokenizer), 8))
    share_digits(tokenizer, table)
    row = dict(zip(PAIRS, tokenizer.convert_tokens_to_ids(PAIRS), strict=True))

    left = table[row["41"]] - table[row["71"]]
    assert torch.allclose(left, table[row["45"]] - table[row["75"]], atol=1e-5)


def test_the_policy_is_small() -> None:
    assert count_parameters(build_policy(build_tokenizer())) < 6_000_000


def test_a_batch_of_drills_and_trajectories_fits_the_mix() -> None:
    mix = Mix()
    assert mix.drills_later < mix.drills_first <= mix.n_rows


@pytest.mark.slow
def test_the_same_seed_and_threads_give_the_same_weights(tmp_path: Path) -> None:
    # Processes of their own: threads that wait actively would fight with those of other tests.
    environment = os.environ | {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
    for folder in ("first", "second"):
        out = str(tmp_path / folder)
        command = [sys.executable, "-m", "awm", "pocket", "train", "--out", out, "--scale", "0.005"]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)

    for role in ("policy", "reader"):
        first, second = (tmp_path / n / role / "model.safetensors" for n in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_a_whole_training_of_a_few_steps_writes_both_models(tmp_path: Path) -> None:
    said: list[str] = []
    settings = PocketTraining(vision_steps=2, imitation_steps=2, reader_steps=2, threads=1)

    train_pocket(settings, tmp_path, said.append, n_checked=4)

    for role in ("policy", "reader"):
        assert (tmp_path / role / "model.safetensors").is_file()
    assert any("readings exactly right" in line for line in said)
    assert not torch.are_deterministic_algorithms_enabled()
