"""The embedded verifier: what it checks, and how often it errs on real pages."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from awm.analysis.grounding.text_numbers import find_codes, find_quantities
from awm.analysis.grounding.text_verifier import Verdict, check_text
from awm.benchmarks import load_benchmark

DATA = Path(__file__).parent / "data"
TABLE = """\
Table 1. Energy used by sector, GWh
Sector 2018 2019 2020
Households 640 628 612
Industry 748 731 705
Line 4 71 48 3
Line 8 91 3 2
"""
PROSE = """\
The harbour was dug in 1887 and has nine cranes. A crane lifts up to
57,500 kilograms, says Marit Oyen, who has run it for twenty-five years.
The ferry "Northern Light" leaves at 8.20 and costs 12.5 % more than before.
"""


def flagged(name: str) -> Counter[str]:
    """Count the findings of a file that are not supported, by kind."""
    benchmark = load_benchmark("demo", None)
    counts: Counter[str] = Counter()
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        with benchmark.open_document(row["document"]) as document:
            verdict = check_text(row["text"], document.page(row["page"]).text()).verdict
        counts[row["kind"]] += verdict in (Verdict.CONTRADICTED, Verdict.NOT_FOUND)
        counts["all"] += 1
    return counts


def test_of_40_demo_findings_it_flags_18_wrong_ones_and_at_most_2_true_ones() -> None:
    counts = flagged("demo_findings.jsonl")

    assert counts["all"] == 40
    assert counts["wrong_number"] + counts["wrong_page"] >= 18
    assert counts["true"] <= 2


def test_on_findings_it_was_not_made_for_it_errs_as_docs_experiments_says() -> None:
    counts = flagged("demo_findings_unseen.jsonl")

    assert counts["all"] == 20
    assert counts["wrong_number"] + counts["wrong_page"] == 8
    assert counts["true"] == 1


@pytest.mark.parametrize(
    "finding",
    [
        "In 1887 the harbour was dug.",
        "The harbour has 9 cranes.",
        "A crane can lift 57500 kg.",
        "Marit Oyen has run the harbour for 25 years.",
        'The ferry "Northern Light" leaves at 8:20.',
        "The ferry is 12.5 per cent more expensive.",
    ],
)
def test_other_spellings_of_a_statement_are_supported(finding: str) -> None:
    judgement = check_text(finding, PROSE)

    assert judgement.verdict is Verdict.SUPPORTED, judgement
    assert judgement.evidence


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        ("The harbour was dug in 1878.", Verdict.CONTRADICTED),
        ("The harbour has eight cranes.", Verdict.CONTRADICTED),
        ("Olav Brekke runs the harbour.", Verdict.NOT_FOUND),
        ('The ferry "Southern Light" leaves at 8.20.', Verdict.CONTRADICTED),
        ("The museum counted 9 visits.", Verdict.NOT_FOUND),
        ("The lighthouse keeper plays chess.", Verdict.NOT_FOUND),
    ],
)
def test_what_the_page_does_not_say_is_flagged(finding: str, verdict: Verdict) -> None:
    assert check_text(finding, PROSE).verdict is verdict


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        ("Industry used 705 GWh of energy in 2020.", Verdict.SUPPORTED),
        ("Industry used 731 GWh of energy in 2020.", Verdict.CONTRADICTED),
        ("Industry used 612 GWh of energy in 2020.", Verdict.CONTRADICTED),
        ("Industry fell from 748 GWh in 2018 to 705 GWh in 2020.", Verdict.SUPPORTED),
        ("Industry used 705 GWh in 2020, down from 748.", Verdict.SUPPORTED),
        ("Line 8 has the figure 91.", Verdict.SUPPORTED),
        ("Line 8 has the figure 71.", Verdict.CONTRADICTED),
    ],
)
def test_a_table_supports_the_cell_that_the_finding_names(finding: str, verdict: Verdict) -> None:
    assert check_text(finding, TABLE).verdict is verdict


def test_the_evidence_of_a_contradiction_is_what_the_page_says_instead() -> None:
    judgement = check_text("The harbour was dug in 1878.", PROSE)

    assert judgement.evidence == "The harbour was dug in 1887 and has nine cranes."
    assert "1878" in judgement.reason


@pytest.mark.parametrize("text", ["", " \n\t", "12 34 56"])
def test_a_page_without_words_is_unreadable(text: str) -> None:
    assert check_text("The harbour has 9 cranes.", text).verdict is Verdict.UNREADABLE


def test_that_a_page_does_not_say_something_can_be_supported_too() -> None:
    absent = "The page does not mention the price of a battery pack."
    present = "The page does not mention how many cranes the harbour has."

    assert check_text(absent, PROSE).verdict is Verdict.SUPPORTED
    assert check_text(present, PROSE).verdict is Verdict.CONTRADICTED


@pytest.mark.parametrize("finding", ["", "…", "2", "2015 2014 2013", "x" * 600, "ééé ﬀ 😀 \u202e"])
def test_no_finding_and_no_page_makes_it_fail(finding: str) -> None:
    for page in (PROSE, TABLE, finding, finding * 50):
        assert check_text(finding, page).verdict in Verdict


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,240.50", ["1240.50"]),
        ("1.240,50", ["1240.50"]),
        ("57\u202f500", ["57500"]),
        ("€12.5m and 3 bn", ["12.5", "3"]),
        ("three hundred and eighteen", ["318"]),
        ("twenty-five of nine thousand", ["25", "9000"]),
        ("one of them", []),
        ("QF-40, E12 and CO2", []),
        ("8:20", ["8.20"]),
        ("15-315 mm", ["15", "315"]),
        ("in 2020/21", ["2020", "21"]),
        ("the 18th of June", ["18"]),
        ("-20 degrees", ["20"]),
    ],
)
def test_numbers_are_read_by_their_values(text: str, values: list[str]) -> None:
    assert [str(quantity.value) for quantity in find_quantities(text)] == values


def test_a_multiplier_is_a_second_reading() -> None:
    (short,) = find_quantities("6.2 million")

    assert short.equals(find_quantities("6,200,000")[0])
    assert short.equals(find_quantities("6.2")[0])
    assert not short.equals(find_quantities("6.3")[0])


def test_a_code_is_a_name_and_no_number() -> None:
    assert find_codes("Press E12 on the QF-40.") == ("E12", "QF-40")
    assert check_text("Code E12 means it is full.", "Memory full E11").verdict is Verdict.NOT_FOUND
