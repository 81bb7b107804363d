from __future__ import annotations

import pytest

from awm.analysis.audits import Audit, AuditCase, count_duplicates, is_generic, split_memory
from awm.analysis.breakdowns import plan_resampling
from awm.analysis.diagnosis.log_rows import Note
from awm.analysis.echo import Echo, find_echo, gold_items, normal_tokens


@pytest.mark.parametrize(
    ("memory", "gold", "exact", "normalised"),
    [
        ("Sales were 4.7 % in 2020.", "4.7 %", True, True),
        ("Sales were 4.7% in 2020.", "4.7 %", False, True),
        ("Sales were 4.70 percent in 2020.", "4.7%", False, True),
        ("Sales were 14.7 % in 2020.", "4.7 %", False, False),
        ("It sold 1,200 units.", "1200", False, True),
        ("It sold 1.2 million units.", 1_200_000, False, True),
        ("It sold $1,200,000.", "1.2 million", False, True),
        ("Founded in 2015.", "5", False, False),
        ("The value is 3.5 here.", "3", False, False),
        ("The value is 3. It fell.", "3", True, True),
        ("LESS WELL-OFF, they say", "Less well-off", False, True),
        ("It is in the café.", "Cafe", False, True),
        ("Oslo and Bergen", ["Oslo", "Bergen"], True, True),
        ("Oslo alone", "['Oslo', 'Bergen']", False, False),
    ],
)
def test_an_echo_is_found_exactly_and_normalised(
    memory: str, gold: object, exact: bool, normalised: bool
) -> None:
    echo = find_echo(memory, gold)

    assert echo is not None
    assert (echo.exact, echo.normalised) == (exact, normalised)


def test_the_share_of_an_echo_is_the_answers_words_over_the_memorys() -> None:
    # tokens: sales, rose, to, 12 -> the answer is 1 of 4
    assert find_echo("Sales rose to 12 %", 12) == Echo(exact=True, normalised=True, share=0.25)
    assert find_echo("12", 12) == Echo(exact=True, normalised=True, share=1.0)
    assert find_echo("Sales rose", 12) == Echo(exact=False, normalised=False, share=None)


@pytest.mark.parametrize("gold", ["Not answerable", "", None, [], "[]", "%"])
def test_a_gold_that_no_memory_can_hold_has_no_echo(gold: object) -> None:
    assert find_echo("Not answerable", gold) is None


def test_gold_lists_count_item_by_item_also_when_written_as_text() -> None:
    assert gold_items("['a', 'b c']") == gold_items(["a", "b c"]) == ["a", "b c"]
    assert gold_items("[4, 5]") == ["4", "5"]
    assert gold_items(7.5) == ["7.5"]


def test_thin_spaces_group_digits_and_plain_spaces_do_not() -> None:
    assert normal_tokens("1\u202f200 of 5 200") == ["1200", "of", "5", "200"]


@pytest.mark.parametrize(
    ("text", "generic"),
    [
        ("The chart shows a trend.", True),
        ("This page does not help. It is about methods.", True),
        ("Self-sufficiency was 4.7 %.", False),
        ("It was highest in Norway.", False),
        ("The GDP grew.", False),
        ('The heading reads "other costs".', False),
        ("it's the page's own total, isn't it", True),
        ("\u8868\u306f\u50be\u5411\u3092\u793a\u3059", None),
        ("...", True),
    ],
)
def test_generic_findings_hold_no_number_name_or_quotation(text: str, generic: bool | None) -> None:
    assert is_generic(text) is generic


def test_a_name_that_opens_a_sentence_counts_where_the_question_has_it() -> None:
    assert is_generic("Norway sold most.") is True
    assert is_generic("Norway sold most.", "What did Norway sell?") is False


def test_duplicates_are_exact_or_near_and_never_over_different_numbers() -> None:
    texts = [
        "Sales were 4.7 in 2019.",
        "sales were  4.7 in 2019",  # exact: case, spaces and the full stop aside
        "The sales were 4.7 in 2019.",  # near: one word more
        "Sales were 4.9 in 2020.",  # another fact
    ]

    assert count_duplicates(texts) == (1, 1)


def test_lines_of_a_text_memory_are_findings_with_their_pages() -> None:
    assert split_memory("[p. 3] Twelve trams.\n\nNo page here") == (
        Note("Twelve trams.", 3),
        Note("No page here"),
    )


def test_rates_of_a_hand_made_log_are_exact() -> None:
    audit = Audit()
    audit.add(
        AuditCase(
            memory=(Note("12 trams run.", 3), Note("12 trams run", 9)),
            gold=12,
            evidence_pages=(3,),
            pages_shown=(3, 4),
            page_count=8,
            refused_writes=2,
        )
    )
    audit.add(
        AuditCase(
            memory=(Note("The table lists things.", 5), Note(" ".join(["word"] * 41), 5)),
            gold="7 %",
            evidence_pages=(5,),
            pages_shown=(5,),
            page_count=8,
            refused_writes=0,
        )
    )
    audit.add(AuditCase(memory=(), gold="Oslo", pages_shown=(1,)))
    audit.add(AuditCase(memory="7%", gold="7 %"))
    audit.add(None)

    found = audit.summarize(plan_resampling(["a", "b", "c", "d", "e"]), [1.0, 0.0, 0.0, 1.0, None])

    assert {name: rate for name, rate in found.counts.items() if rate[1]} == {
        "empty_memories": (1, 4),
        # the 41 words; the text memory has no schema, the empty one no finding
        "schema_violations": (1, 4),
        # 2 refused beside 2 written, 0 beside 2
        "refused_writes": (2, 6),
        # page 9 of 8
        "pages_in_document": (3, 4),
        "pages_shown": (3, 4),
        # page 3 of (3, 9); 5 and 5
        "pages_in_evidence": (3, 4),
        "all_in_evidence": (1, 2),
        # of the three with findings: 12 in the first; "7 %" is not "7%" letter for letter
        "echo_exact": (1, 3),
        "echo_normalised": (2, 3),
        # 12 trams run 12 trams run: 1 of 6; 7: 1 of 1
        "echo_share": (1 / 6 + 1, 2),
        "answer_only": (1, 3),
        # the table that lists things, and 41 times "word"; four findings and the text's line
        "generic_findings": (2, 5),
        "exact_duplicates": (1, 5),
        "near_duplicates": (0, 5),
    }
    assert (found.n_memories, found.n_without_memory) == (4, 1)
    # without an exact echo: the second (0) and the fourth (1); the empty memory is not audited
    assert found.memory_accuracy_without_echo.value == 0.5
    # words: 6, 45, 0 and 1
    assert (found.words.mean, found.words.median, found.words.largest) == (13.0, 3.5, 45)


def test_what_cannot_be_audited_is_none_and_not_zero() -> None:
    audit = Audit()
    audit.add(AuditCase(memory="a text"))

    found = audit.summarize(plan_resampling(["a"]), [None])

    assert found.rates["pages_shown"].value is None
    assert found.rates["echo_exact"].value is None
    assert found.rates["refused_writes"].value is None


def test_a_page_tag_is_no_echo_of_the_answer() -> None:
    audit = Audit()
    audit.add(AuditCase(memory=(Note("Trams run.", 5),), gold=5))
    audit.add(AuditCase(memory="[p. 5] Trams run.", gold=5))

    found = audit.summarize(plan_resampling(["a", "b"]), [None, None])

    assert found.counts["echo_exact"] == (0, 2)
