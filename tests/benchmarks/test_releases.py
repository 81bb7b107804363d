"""Which release a dataset is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from awm.benchmarks import load_benchmark
from awm.benchmarks.releases import RELEASES, describe_release, find_release

_MMLONG = next(r for r in RELEASES if r.n_questions == 1082)


def test_a_known_hash_names_its_release() -> None:
    assert _MMLONG.dataset_hash is not None
    assert find_release("mmlongbench-doc", _MMLONG.dataset_hash) is _MMLONG
    assert (
        describe_release("mmlongbench-doc", _MMLONG.dataset_hash, 1082)
        == "MMLongBench-Doc 2025-09 release (1,082 questions)"
    )


def test_a_release_that_we_have_not_seen_is_told_by_its_number_and_says_so() -> None:
    told = describe_release("mmlongbench-doc", "0" * 64, 1091)
    assert told == "MMLongBench-Doc, first release (1,091 questions; told by their number alone)"
    told = describe_release("longdocurl", "0" * 64, 2325)
    assert told == "LongDocURL, full set (2,325 questions; told by their number alone)"


def test_other_rows_of_the_same_number_are_not_the_release() -> None:
    told = describe_release("mmlongbench-doc", "0" * 64, 1082)

    assert told.startswith("unknown: N=1,082 as in MMLongBench-Doc 2025-09 release, whose rows")
    assert "hash 000000000000, expected b262bfbfaf50" in told


@pytest.mark.parametrize("benchmark", ["longdocurl", "mmlongbench-doc"])
def test_anything_else_is_unknown(benchmark: str) -> None:
    assert describe_release(benchmark, "0" * 64, 17) == "unknown: N=17"
    assert find_release(benchmark, "0" * 64) is None


def test_a_file_of_the_user_s_own_has_no_release() -> None:
    assert describe_release("jsonl", "0" * 64, 1234) == "your own questions (N=1,234)"
    assert find_release("jsonl", "0" * 64) is None


def test_no_two_releases_can_be_confused() -> None:
    assert len({(r.benchmark, r.n_questions) for r in RELEASES}) == len(RELEASES)


@pytest.mark.parametrize(
    ("name", "file", "told"),
    [
        (
            "mmlongbench-doc",
            "samples.json",
            "MMLongBench-Doc 2025-09 release (1,082 questions)",
        ),
        ("longdocurl", "LongDocURL.jsonl", "LongDocURL, sample of its repository (3 questions)"),
    ],
)
def test_the_data_at_hand_are_known_releases(name: str, file: str, told: str) -> None:
    beside = Path(__file__).parents[2].parent / "shared"
    folder = Path(os.environ.get("AWM_SHARED", beside)) / "data" / name
    if not (folder / file).is_file():
        pytest.skip(f"no {name} at {folder}; set AWM_SHARED")

    benchmark = load_benchmark(name, folder)

    assert describe_release(name, benchmark.dataset_hash, benchmark.n_dataset) == told
