"""The weights that ship: they see, they act by the rules, and the reader is not fooled."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `local` (torch, transformers) is not installed")
pytest.importorskip("transformers", reason="the extra `local` is not installed")

import torch
from transformers import Qwen3ForCausalLM, Qwen3VLForConditionalGeneration

from awm.analysis.summary import RunSummary, summarize
from awm.benchmarks.pocket import load_pocket
from awm.benchmarks.pocket_world import PocketPage, training_cases
from awm.evaluate import EvalSettings, evaluate
from awm.models.chat import ModelSettings
from awm.models.pocket import pocket_weights
from awm.pocket.encoding import Encoder
from awm.pocket.imitation import exact_turns
from awm.pocket.model import N_VISUAL, count_parameters
from awm.pocket.reader import exact_readings
from awm.pocket.rows import RowMaker, make_batch
from awm.pocket.tokenizer import build_processor, build_tokenizer, never_sampled
from awm.runs import open_run

pytestmark = pytest.mark.filterwarnings("default")

WEIGHTS = pocket_weights()


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(build_tokenizer(), N_VISUAL)


@pytest.fixture(scope="module")
def policy() -> Any:
    torch.set_num_threads(2)
    model = Qwen3VLForConditionalGeneration.from_pretrained(WEIGHTS / "policy", dtype=torch.float32)
    return model.eval()


@pytest.fixture(scope="module")
def reader() -> Any:
    return Qwen3ForCausalLM.from_pretrained(WEIGHTS / "reader", dtype=torch.float32).eval()


def test_both_models_take_less_than_15_megabytes() -> None:
    files = [path for path in WEIGHTS.rglob("*") if path.is_file()]

    assert sum(path.stat().st_size for path in files) < 15_000_000
    assert (WEIGHTS / "README.md").is_file()


def test_the_shipped_tokenizers_are_those_of_the_present_prompts(tmp_path: Path) -> None:
    """When this fails, the prompts have changed: awm pocket tokenizer src/awm/pocket/weights."""
    build_processor().save_pretrained(tmp_path)

    wanted = (tmp_path / "tokenizer.json").read_text()
    for role in ("policy", "reader"):
        assert (WEIGHTS / role / "tokenizer.json").read_text() == wanted


def test_the_policy_is_a_stock_qwen3_vl_of_under_6_million_parameters(policy: Any) -> None:
    assert count_parameters(policy) < 6_000_000
    assert policy.config.architectures == ["Qwen3VLForConditionalGeneration"]
    assert policy.generation_config.suppress_tokens == never_sampled(build_tokenizer())
    assert policy.generation_config.temperature in (None, 1.0)


def test_the_policy_does_what_the_teacher_does_on_unseen_documents(
    policy: Any, encoder: Encoder
) -> None:
    shares = exact_turns(policy, encoder, n=120)

    assert shares["lookup specific findings"] >= 0.95
    assert shares["lookup generic answer"] >= 0.95
    assert shares["larger_value specific findings"] >= 0.8
    assert shares["larger_value generic answer"] >= 0.8


def test_two_pages_that_differ_in_one_number_are_told_apart(policy: Any, encoder: Encoder) -> None:
    """The sight test: the likelihood of the answer must follow the page image."""
    case = next(case for case in training_cases(77) if case.kind == "lookup")
    row = RowMaker(encoder, Random(0)).trajectory(case, generic=True)
    other = "1234" if case.answer != "1234" else "5678"
    at = row.numbers.index(case.evidence_pages[0])
    page = row.pages[at]
    changed = PocketPage(
        page.subject, tuple((k, other if k == case.key else v) for k, v in page.facts)
    )

    def likelihood() -> float:
        batch = make_batch([row], encoder)
        answer = encoder.text(case.answer)
        at_T = len(row.ids) - 2 - len(answer)  # before the end of the turn and its newline
        assert row.ids[at_T : at_T + len(answer)] == answer
        with torch.no_grad():
            logs = policy(**batch.inputs).logits.log_softmax(-1)[0]
        return float(sum(logs[at_T + i - 1, token] for i, token in enumerate(answer)))

    seen = likelihood()
    row.pages[at] = changed
    unseen = likelihood()

    assert seen > -0.5
    assert unseen < seen - 2


def test_the_reader_answers_from_what_is_stated_and_from_nothing_else(
    reader: Any, encoder: Encoder
) -> None:
    shares = exact_readings(reader, encoder, n=64)

    stated = {"good", "good_in_a_crowd", "wrong_number"}
    assert min(shares[sort] for sort in stated) >= 0.93
    assert min(share for sort, share in shares.items() if sort not in stated) >= 0.95
    assert shares["generic"] >= 0.98


async def _run(tmp_path: Path, *, blank: bool, n: int) -> RunSummary:
    benchmark = load_pocket(4, blank=blank, n_questions=n)
    pocket = ModelSettings(spec="pocket", seed=0)
    settings = EvalSettings(
        benchmark=benchmark.name,
        seed=4,
        run=tmp_path / "run",
        model=pocket,
        reader=pocket,
        concurrency=n,
    )
    return summarize(open_run(await evaluate(settings, benchmark=benchmark)))


async def test_an_evaluation_shows_right_answers_whose_memory_cannot_give_them(
    tmp_path: Path,
) -> None:
    summary = await _run(tmp_path, blank=False, n=60)

    assert summary.n_unmeasured == 0
    assert (summary.final_accuracy.value or 0.0) >= 0.85
    assert 0.25 <= (summary.p_mmc.value or 0.0) <= 0.75


async def test_blank_paper_takes_the_answers_away(tmp_path: Path) -> None:
    await _run(tmp_path, blank=True, n=60)
    store = open_run(tmp_path / "run")
    answerable = {e.question_id for e in store.examples.read() if e.answer_format != "None"}
    scores = [s.final.score for s in store.scores.read() if s.question_id in answerable]

    assert len(scores) == len(answerable) > 30
    assert sum(score or 0.0 for score in scores) / len(scores) < 0.2
