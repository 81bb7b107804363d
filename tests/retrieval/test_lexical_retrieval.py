from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.documents import Document, PageImage, RenderSettings
from awm.errors import PageError
from awm.retrieval import BM25Retriever, Hit, Retriever
from awm.retrieval.lexical import tokenize


class WrittenPages:
    """A document that is nothing but text; a page of None is damaged."""

    renderer = "none"

    def __init__(self, texts: Sequence[str | None], digest: str = "d") -> None:
        self._texts = texts
        self.page_count = len(texts)
        self.digest = digest
        self.n_reads = 0

    def draw(self, number: int, settings: RenderSettings) -> PageImage:
        raise PageError("these pages have no image")

    def read_text(self, number: int) -> str:
        self.n_reads += 1
        text = self._texts[number - 1]
        if text is None:
            raise PageError(f"page {number} is damaged")
        return text

    def close(self) -> None:
        pass


def written(*texts: str | None, digest: str = "d") -> Document:
    return Document("doc", WrittenPages(texts, digest))


def pages(hits: Sequence[Hit]) -> list[int]:
    return [hit.page for hit in hits]


@pytest.fixture
def retriever() -> Retriever:
    return BM25Retriever()


@pytest.fixture
def report() -> Document:
    return written(
        "annual report of the company",
        "net income rose to 1,234 million",
        "income statement, net of tax, and other income",
        "",
        "the number of employees is 18.29 thousand",
    )


def test_the_page_that_says_it_comes_first(retriever: Retriever, report: Document) -> None:
    assert pages(retriever.search(report, "How many employees?", 1)) == [5]
    assert pages(retriever.search(report, "net income", 2)) == [2, 3]


def test_a_number_is_found_whole_and_with_or_without_commas(
    retriever: Retriever, report: Document
) -> None:
    for query in ("1,234", "$1234", "(1,234)"):
        [hit] = retriever.search(report, query, 1)
        assert hit.page == 2
        assert hit.score > 0
    assert retriever.search(report, "18.29", 1)[0].page == 5
    assert retriever.search(report, "18", 1)[0].score == 0


def test_pages_without_a_match_follow_in_page_order(retriever: Retriever, report: Document) -> None:
    hits = retriever.search(report, "employees", 5)

    assert pages(hits) == [5, 1, 2, 3, 4]
    assert [hit.score for hit in hits[1:]] == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("query", ["zebra", "", "   ", "who is it?", "§ $ %", "\x00"])
def test_a_query_that_matches_nothing_gives_pages_in_order(
    retriever: Retriever, report: Document, query: str
) -> None:
    assert retriever.search(report, query, 3) == [Hit(1, 0.0), Hit(2, 0.0), Hit(3, 0.0)]


@pytest.mark.parametrize("texts", [("", "", ""), ("the", "of", "... ---")])
def test_a_document_without_any_text_gives_pages_in_order(
    retriever: Retriever, texts: tuple[str, ...]
) -> None:
    assert retriever.search(written(*texts), "net income", 2) == [Hit(1, 0.0), Hit(2, 0.0)]


def test_a_first_page_without_text_is_no_obstacle(retriever: Retriever) -> None:
    assert pages(retriever.search(written("", "net income", ""), "income", 1)) == [2]


def test_a_document_of_one_page_is_found(retriever: Retriever) -> None:
    [hit] = retriever.search(written("net income"), "income", 3)

    assert hit.page == 1
    assert hit.score > 0


def test_a_damaged_page_counts_as_empty(retriever: Retriever) -> None:
    document = written("net income", None, "income income")

    assert pages(retriever.search(document, "income", 3)) == [3, 1, 2]


def test_equal_scores_are_in_page_order(retriever: Retriever) -> None:
    document = written("x", "same words here", "y", "same words here", "same words here")

    assert pages(retriever.search(document, "same words", 5)) == [2, 4, 5, 1, 3]


def test_excluded_pages_are_passed_over_without_a_new_index(report: Document) -> None:
    source = WrittenPages(["net income", "net income", "income"])
    document = Document("doc", source)
    retriever = BM25Retriever()

    assert pages(retriever.search(document, "net income", 2)) == [1, 2]
    assert pages(retriever.search(document, "net income", 2, exclude=[1])) == [2, 3]
    assert pages(retriever.search(document, "net income", 2, exclude={1, 2, 99})) == [3]
    assert retriever.search(document, "net income", 2, exclude=range(1, 4)) == []
    assert source.n_reads == 3


def test_top_k_is_an_upper_bound(retriever: Retriever, report: Document) -> None:
    assert len(retriever.search(report, "income", 99)) == 5
    assert retriever.search(report, "income", 0) == []
    assert retriever.search(report, "income", -1) == []


def test_a_window_is_searched_on_its_own(retriever: Retriever, report: Document) -> None:
    window = report.window(3, 5)

    assert pages(retriever.search(window, "net income", 9)) == [3, 4, 5]
    assert pages(retriever.search(report, "net income", 1)) == [2]


def test_indexes_are_kept_up_to_the_limit() -> None:
    sources = [WrittenPages(["net income"], digest) for digest in "abc"]
    documents = [Document("doc", source) for source in sources]
    retriever = BM25Retriever(max_indexes=2)

    for index in (0, 1, 0, 2, 0, 1):
        retriever.search(documents[index], "income", 1)

    assert [source.n_reads for source in sources] == [1, 2, 1]


def test_documents_with_the_same_content_share_an_index() -> None:
    sources = [WrittenPages(["net income"], "same") for _ in range(2)]
    retriever = BM25Retriever()

    for source in sources:
        retriever.search(Document("doc", source), "income", 1)

    assert [source.n_reads for source in sources] == [1, 0]


def test_threads_build_an_index_once() -> None:
    source = WrittenPages(["net income", "tax", "income"] * 20)
    document = Document("doc", source)
    retriever = BM25Retriever()
    barrier = threading.Barrier(8)

    def work(_: int) -> list[Hit]:
        barrier.wait()
        return retriever.search(document, "net income", 3)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))

    assert all(result == results[0] for result in results)
    assert pages(results[0]) == [1, 4, 7]
    assert source.n_reads == 60


def test_scores_match_bm25_by_hand(retriever: Retriever) -> None:
    # "tax" in 1 of 2 pages: idf = ln(1 + (2 - 1 + 0.5) / (1 + 0.5)) = ln 2. Both pages hold one
    # term, so the length is average and the score ln 2 * 1 / (1.5 + 1).
    hits = retriever.search(written("tax", "income"), "tax", 1)

    assert hits[0].score == pytest.approx(0.693147 / 2.5, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Net Income", ["net", "income", "net income"]),
        ("What is the ﬁgure?", ["figure"]),
        ("GPT-4 GPT4", ["gpt", "4", "gpt4", "gpt 4", "4 gpt4"]),
        ("12,345.67 1,23 18.29%", ["12345.67", "1,23", "18.29", "12345.67 1,23", "1,23 18.29"]),
        ("snake_case", ["snake", "case", "snake case"]),
        ("Straße STRASSE", ["strasse", "strasse", "strasse strasse"]),
        ("净收入", ["净", "收", "入", "净 收", "收 入"]),
        ("", []),
    ],
)
def test_text_is_split_into_terms(text: str, terms: list[str]) -> None:
    assert tokenize(text) == terms


@given(
    texts=st.lists(st.text(max_size=30), min_size=1, max_size=8),
    query=st.text(max_size=30),
    top_k=st.integers(1, 10),
    exclude=st.sets(st.integers(1, 8)),
)
def test_a_search_gives_each_page_once_best_first(
    texts: list[str], query: str, top_k: int, exclude: set[int]
) -> None:
    hits = BM25Retriever().search(written(*texts), query, top_k, exclude)

    left = set(range(1, len(texts) + 1)) - exclude
    assert len(hits) == min(top_k, len(left))
    assert set(pages(hits)) <= left
    assert len(set(pages(hits))) == len(hits)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.page))
