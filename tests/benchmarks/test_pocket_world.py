import hashlib
import itertools
import re
from collections import Counter
from random import Random

import numpy as np
import pytest

from awm.benchmarks.pocket_world import (
    HEIGHT_PX,
    KEY_CELLS,
    KEYS,
    KINDS,
    MAX_PAGES,
    MAX_PAGES_OF_KEY,
    MIN_LEAD,
    MIN_PAGES,
    NAMES,
    NOT_ANSWERABLE,
    WIDTH_PX,
    PocketPage,
    PocketSource,
    belongs_to,
    draw_page,
    make_case,
    make_document,
    make_pages,
    pages_with,
    training_cases,
)
from awm.documents import RenderSettings
from awm.errors import PageError
from awm.scoring.anls import anls

CASES = [make_case("test", 5, number) for number in range(400)]


def test_a_case_follows_from_its_integers() -> None:
    assert make_case("test", 5, 17) == CASES[17]
    assert make_case("test", 6, 17) != CASES[17]
    assert make_case("train", 5, 17) != CASES[17]


def test_four_questions_share_a_document_and_training_cases_share_none() -> None:
    assert len({case.pages for case in CASES[:8]}) == 2
    assert len({case.pages for case in itertools.islice(training_cases(5), 8)}) == 8


def test_documents_have_6_to_20_pages_of_distinct_subjects_with_3_to_5_facts() -> None:
    for case in CASES:
        assert MIN_PAGES <= len(case.pages) <= MAX_PAGES
        assert len({page.subject for page in case.pages}) == len(case.pages)
        assert all(3 <= len(page.facts) <= 5 for page in case.pages)


def test_every_kind_of_fact_fits_into_one_retrieval() -> None:
    for case in CASES:
        counts = Counter(key for page in case.pages for key, _ in page.facts)
        assert max(counts.values()) <= MAX_PAGES_OF_KEY


def test_several_subjects_mostly_compete_for_a_lookup() -> None:
    lookups = [case for case in CASES if case.kind == "lookup"]

    assert all(len(case.pages_with_key()) >= 2 for case in lookups)
    assert sum(len(case.pages_with_key()) == 3 for case in lookups) > len(lookups) / 2


def test_no_pair_of_subject_and_value_of_the_test_split_stands_in_training() -> None:
    def pairs(pages: tuple[PocketPage, ...]) -> set[tuple[str, str]]:
        return {(page.subject, value) for page in pages for _, value in page.facts}

    trained = set().union(*(pairs(c.pages) for c in itertools.islice(training_cases(0), 300)))
    tested = set().union(*(pairs(case.pages) for case in CASES))

    assert not trained & tested
    assert {belongs_to(*pair) for pair in trained} == {"train"}
    assert {belongs_to(*pair) for pair in tested} == {"test"}


def test_gold_answers_are_what_the_pages_say() -> None:
    for case in CASES:
        values = [case.pages[n - 1].value(case.key) for n in case.evidence_pages]
        subjects = [case.pages[n - 1].subject for n in case.evidence_pages]
        match case.kind:
            case "lookup":
                assert values == [case.answer]
                assert subjects == list(case.subjects)
            case "larger_value":
                assert case.answer == str(max(int(value or 0) for value in values))
            case "larger_subject":
                by_value = dict(zip(values, subjects, strict=True))
                assert case.answer == by_value[max(values, key=lambda value: int(value or 0))]
            case "count":
                holders = [p for p in case.pages if case.key in dict(p.facts)]
                assert case.answer == str(len(holders))
            case "unanswerable":
                (subject,) = case.subjects
                assert case.answer == NOT_ANSWERABLE
                assert not [
                    p for p in case.pages if p.subject == subject and case.key in dict(p.facts)
                ]


def test_all_kinds_of_question_occur_in_their_shares() -> None:
    counts = Counter(make_case("test", 1, number).kind for number in range(1200))

    for kind, share in KINDS.items():
        assert counts[kind] / 1200 == pytest.approx(share, abs=0.04)


def test_compared_values_differ_in_their_leading_digits() -> None:
    for case in CASES:
        for key in KEYS:
            values = [case.pages[n - 1].value(key) or "" for n in pages_with(case.pages, key)]
            for one, other in itertools.combinations(values, 2):
                assert abs(int(one[:2]) - int(other[:2])) >= MIN_LEAD


def test_the_judge_gives_no_point_for_another_subject() -> None:
    for one, other in itertools.combinations(NAMES, 2):
        assert anls(one.lower(), other.lower()) == 0


def test_words_fit_their_places_on_the_page() -> None:
    assert max(map(len, KEYS)) < KEY_CELLS
    assert max(map(len, NAMES)) * 8 <= WIDTH_PX
    assert len(set(KEYS)) == len(KEYS)
    assert len(set(NAMES)) == len(NAMES)


def test_a_page_is_drawn_two_characters_to_a_patch() -> None:
    image = draw_page(PocketPage("Acme", (("cost", "4172"),)))
    pixels = np.asarray(image)[:, :, 0]
    inked = pixels.reshape(6, 16, 5, 16).min(axis=(1, 3)) < 128

    assert image.size == (WIDTH_PX, HEIGHT_PX)
    assert inked[0].tolist() == [True, True, False, False, False]  # "Ac" "me"
    assert inked[1].tolist() == [True, True, True, True, True]  # "co" "st" ": " "41" "72"
    assert not inked[2:].any()


def test_the_subject_is_a_picture_and_not_text() -> None:
    page = PocketPage("Acme", (("cost", "4172"), ("tax", "1203")))
    source = PocketSource((page,))

    assert source.read_text(1) == "cost: 4172\ntax: 1203"
    assert page.lines() == ["Acme", "cost: 4172", "tax:  1203"]


def test_blank_paper_keeps_its_text_layer_and_is_another_document() -> None:
    pages = make_pages(Random(1), "test")
    real, blank = make_document(pages, "d"), make_document(pages, "d", blank=True)
    settings = RenderSettings(media_type="image/png")

    assert blank.page_texts() == real.page_texts()
    assert blank.digest != real.digest
    assert len({blank.page(n).image(settings).digest for n in blank.page_numbers}) == 1
    assert len({real.page(n).image(settings).digest for n in real.page_numbers}) == len(pages)


def test_a_pixel_budget_scales_pages_down() -> None:
    source = PocketSource(make_pages(Random(1), "test"))

    assert source.draw(1, RenderSettings()).width == WIDTH_PX
    small = source.draw(1, RenderSettings(max_pixels=WIDTH_PX * HEIGHT_PX // 4))
    assert (small.width, small.height) == (WIDTH_PX // 2, HEIGHT_PX // 2)


def test_a_page_that_is_not_there_is_refused() -> None:
    pages = make_pages(Random(1), "test")

    with pytest.raises(PageError, match=re.escape(f"has {len(pages)}")):
        PocketSource(pages).read_text(len(pages) + 1)


def test_drawn_pages_are_the_same_with_every_version_of_pillow() -> None:
    image = draw_page(PocketPage("Zephyr", (("cells", "9988"), ("fleet", "9613"))))

    assert hashlib.sha256(image.tobytes()).hexdigest()[:16] == "f8beaffa0bb57107"
