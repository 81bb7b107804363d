"""The known releases of the benchmarks, so that every figure can say what it was measured on.

Datasets change under one name: MMLongBench-Doc had 1,091 questions and has 1,082. A release is told
by the hash of its rows (`hash_rows`); where we have never seen its file, by its number of questions
alone, and the description says so.

    >>> describe_release("mmlongbench-doc", "0" * 64, 1091)
    'MMLongBench-Doc, first release (1,091 questions; told by their number alone)'
    >>> describe_release("jsonl", "0" * 64, 16)
    'your own questions (N=16)'
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Release:
    """One published state of a benchmark."""

    benchmark: str
    """Name on the command line."""
    title: str
    n_questions: int
    dataset_hash: str | None
    """SHA-256 over the rows (`hash_rows`); None: we have not seen the file."""


RELEASES = (
    Release(
        "mmlongbench-doc",
        "MMLongBench-Doc 2025-09 release",
        1082,
        "b262bfbfaf50461212c2467fe914fa5a16868c70ba4a5b4df3f6b82d7ed61b68",
    ),
    Release("mmlongbench-doc", "MMLongBench-Doc, first release", 1091, None),
    Release("longdocurl", "LongDocURL, full set", 2325, None),
    Release(
        "longdocurl",
        "LongDocURL, sample of its repository",
        3,
        "9cd2c622fe566eaa6fa2496c76002cb53b4afe12ba0f08718a59521c4e620831",
    ),
)


OWN_QUESTIONS = "jsonl"
"""The benchmark that is a file of the user's own: it has no releases."""


def find_release(benchmark: str, dataset_hash: str) -> Release | None:
    """Find the release whose rows have this hash."""
    for release in RELEASES:
        if release.benchmark == benchmark and release.dataset_hash == dataset_hash:
            return release
    return None


def describe_release(benchmark: str, dataset_hash: str, n_questions: int) -> str:
    """Name the release of a loaded dataset, and how it was told.

    Args:
        benchmark: name on the command line.
        dataset_hash: SHA-256 over the dataset's rows, before any overlay.
        n_questions: questions of the dataset, with those that cannot run.

    Returns:
        E.g. "MMLongBench-Doc 2025-09 release (1,082 questions)"; "your own questions (N=…)" for
        a file of your own; "unknown: N=…" for any other, also where it has a release's number of
        questions and other rows.
    """
    known = find_release(benchmark, dataset_hash)
    if known is not None:
        return f"{known.title} ({known.n_questions:,} questions)"
    for release in RELEASES:
        if release.benchmark == benchmark and release.n_questions == n_questions:
            if release.dataset_hash is None:
                return f"{release.title} ({n_questions:,} questions; told by their number alone)"
            return (
                f"unknown: N={n_questions:,} as in {release.title}, whose rows differ "
                f"(hash {dataset_hash[:12]}, expected {release.dataset_hash[:12]})"
            )
    if benchmark == OWN_QUESTIONS:
        return f"your own questions (N={n_questions:,})"
    return f"unknown: N={n_questions:,}"
