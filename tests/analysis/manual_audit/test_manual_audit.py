"""The manual audit: a stratified sample, a sheet that survives spreadsheets, and agreement."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.analysis.manual_audit.sample import COLUMNS, allocate, draw_sample
from awm.analysis.manual_audit.sheet import clean_cell, protect, read_sheet, unprotect, write_sheet
from awm.analysis.manual_audit.verdicts import AuditResult, read_audit
from awm.errors import ConfigError, DataError
from awm.runs import RunStore
from made_runs import FAILED, Made, make_run

ANSWERS = {
    "memory_supported_correct": ("Oslo", "Oslo"),
    "memory_missing_correct": ("Oslo", "Rome"),
    "answering_error": ("Rome", "Oslo"),
    "unresolved_error": ("Rome", "Rome"),
}


def make_cells(path: Path, **sizes: int) -> RunStore:
    rows = [
        Made(f"{cell}-{i}", f"d{i % 3}", "Oslo", *ANSWERS[cell])
        for cell, size in sizes.items()
        for i in range(size)
    ]
    return make_run(path, [*rows, Made("failed", "d1", "Oslo", FAILED, "Oslo")])


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("sizes", "n", "drawn"),
    [
        ({"a": 2, "b": 50, "c": 50}, 20, {"a": 2, "b": 9, "c": 9}),
        ({"a": 5, "b": 5}, 100, {"a": 5, "b": 5}),
        ({"a": 5, "b": 5}, 3, {"a": 2, "b": 1}),
        ({"a": 0, "b": 5}, 3, {"a": 0, "b": 3}),
        ({"a": 9}, 4, {"a": 4}),
    ],
)
def test_rows_are_shared_as_equally_as_sizes_allow(
    sizes: dict[str, int], n: int, drawn: dict[str, int]
) -> None:
    assert allocate(sizes, n) == drawn


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 30), max_size=5), st.integers(0, 80))
def test_an_allocation_fits_and_adds_up(sizes: dict[str, int], n: int) -> None:
    drawn = allocate(sizes, n)

    assert sum(drawn.values()) == min(n, sum(sizes.values()))
    assert all(drawn[cell] <= sizes[cell] for cell in sizes)


def test_a_sample_is_stratified_seeded_and_complete(tmp_path: Path) -> None:
    store = make_cells(
        tmp_path / "run", memory_supported_correct=10, memory_missing_correct=2, unresolved_error=20
    )

    sample = draw_sample(store, 12, 0, tmp_path / "a.csv")
    draw_sample(store, 12, 0, tmp_path / "same.csv")
    draw_sample(store, 12, 1, tmp_path / "other.csv")

    assert sample.n_drawn == {
        "memory_missing_correct": 2,
        "memory_supported_correct": 5,
        "unresolved_error": 5,
    }
    assert sample.n_unmeasured == 1
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "same.csv").read_bytes()
    assert (tmp_path / "a.csv").read_bytes() != (tmp_path / "other.csv").read_bytes()
    rows = read_rows(tmp_path / "a.csv")
    assert tuple(rows[0]) == COLUMNS
    assert len({row["question_id"] for row in rows}) == 12
    first = next(row for row in rows if row["cell"] == "memory_missing_correct")
    assert first | {"row": "", "question_id": "", "document": "", "question": ""} == {
        "row": "",
        "question_id": "",
        "document": "",
        "question": "",
        "gold": "Oslo",
        "gold_format": "Str",
        "evidence_pages": "p. 1",
        "pages_shown": "p. 1; p. 2",
        "final_answer": "The answer is Oslo.",
        "final_short": "Oslo",
        "memory": "[p. 1] A finding.",
        "memory_answer": "Rome!",
        "memory_short": "Rome",
        "final_correct": "",
        "memory_correct": "",
        "memory_supports": "",
        "kind": "",
        "note": "",
        "final_official": "1",
        "final_repaired": "1",
        "memory_official": "0",
        "memory_repaired": "0",
        "cell": "memory_missing_correct",
        "cell_size": "2",
    }


def test_a_run_without_a_memory_is_stratified_by_right_and_wrong(tmp_path: Path) -> None:
    rows = [Made(f"q{i}", "d", "Oslo", "Oslo" if i else "Rome") for i in range(4)]

    sample = draw_sample(make_run(tmp_path / "run", rows), 2, 0, tmp_path / "a.csv")

    assert sample.n_in_run == {"right": 3, "wrong": 1}
    assert read_audit(tmp_path / "a.csv").aspects["memory_correct"].n_without_score == 2


def test_a_sheet_is_never_overwritten(tmp_path: Path) -> None:
    store = make_cells(tmp_path / "run", unresolved_error=2)
    (tmp_path / "a.csv").write_text("hours of work")

    with pytest.raises(ConfigError, match="is there already"):
        draw_sample(store, 2, 0, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "hours of work"


def test_nothing_measured_gives_no_sample(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [Made("q", "d", "Oslo", FAILED, FAILED)])

    with pytest.raises(ConfigError, match="no question with all of its scores"):
        draw_sample(store, 5, 0, tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-5", "'-5"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\uff1d1", "'\uff1d1"),
        ("'=1", "''=1"),
        ("12-5", "'12-5"),
        ("1/2", "'1/2"),
        ("007", "'007"),
        ("12.50", "'12.50"),
        ("1e5", "'1e5"),
        ("12", "12"),
        ("0", "0"),
        ("Oslo = capital", "Oslo = capital"),
        ("'quoted'", "'quoted'"),
        ("Table 3", "Table 3"),
        ("", ""),
    ],
)
def test_a_text_that_a_spreadsheet_would_change_gets_an_apostrophe(text: str, cell: str) -> None:
    assert protect(text) == cell
    assert unprotect(cell) == text


@given(st.text())
def test_protection_round_trips_and_no_cell_begins_a_formula(text: str) -> None:
    assert unprotect(protect(text)) == text
    assert clean_cell(text)[:1] not in set("=+-@\t\r\n")


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=40), min_size=1))
def test_a_sheet_reads_back_what_was_written(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        write_sheet(path, ("n", "text"), [{"n": i, "text": text} for i, text in enumerate(texts)])
        rows = read_sheet(path, ("n", "text"))

    assert [cells["n"] for _, cells in rows] == [str(i) for i in range(len(texts))]
    assert [cells["text"] for _, cells in rows] == [unprotect(clean_cell(t)) for t in texts]


def test_control_characters_and_very_long_texts_are_tamed() -> None:
    assert (
        clean_cell("a\x1b[31m\x00b") == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b"
    )
    long = clean_cell("x" * 100_000)
    assert len(long) < 32_767
    assert long.endswith("(70000 more characters)")


def fill(path: Path, verdicts: dict[str, tuple[str, str]]) -> Path:
    """Fill in final_correct and kind by the question's id."""
    rows = read_rows(path)
    for row in rows:
        row["final_correct"], row["kind"] = verdicts.get(row["question_id"], ("", ""))
    return save(path, rows)


def save(path: Path, rows: list[dict[str, str]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    """Two rows of each cell: of 2 supported and of 18 unresolved answers."""
    store = make_cells(tmp_path / "run", memory_supported_correct=2, unresolved_error=18)
    draw_sample(store, 4, 0, tmp_path / "a.csv")
    return tmp_path / "a.csv"


def judge(sheet: Path, right: str, wrong: list[str], kind: str = "alias") -> AuditResult:
    """Give `right` as the verdict of both supported rows, and `wrong` of the unresolved ones."""
    rows = read_rows(sheet)
    unresolved = iter(wrong)
    for row in rows:
        is_wrong = row["cell"] == "unresolved_error"
        row["final_correct"] = next(unresolved) if is_wrong else right
        row["kind"] = kind if is_wrong and row["final_correct"] == "yes" else ""
    return read_audit(save(sheet, rows))


def test_agreement_is_given_for_the_sample_and_weighted_to_the_run(sheet: Path) -> None:
    result = judge(sheet, "yes", ["no", "yes"])

    final = result.aspects["final_correct"]
    assert (final.n, final.n_agree, final.agreement) == (4, 3, 0.75)
    # official right 2, person right 3: expected (2*3 + 2*1) / 16 = 0.5; kappa (0.75-0.5)/0.5
    assert final.kappa.kappa == pytest.approx(0.5)
    assert (final.n_too_generous, final.n_too_strict, final.p_one_sided) == (0, 1, 1.0)
    # weights: supported 2/2 = 1 each, unresolved 18/2 = 9 each; agreeing 1 + 1 + 9 of 20
    assert final.weighted_agreement == pytest.approx(11 / 20)
    assert final.weighted_right_officially == pytest.approx(2 / 20)
    assert final.weighted_right_by_person == pytest.approx(11 / 20)
    # expected 0.1*0.55 + 0.9*0.45 = 0.46
    assert final.weighted_kappa == pytest.approx((0.55 - 0.46) / 0.54)
    assert result.kinds == {"alias": 1}
    assert result.n_untouched == 0
    interval = final.agreement_interval
    assert interval is not None
    # Wilson of 3 in 4, from the literature: 0.3006 to 0.9544
    assert interval.low == pytest.approx(0.3006, abs=1e-4)
    assert interval.high == pytest.approx(0.9544, abs=1e-4)
    weighted = final.weighted_interval
    assert weighted is not None
    # Kish: 20^2 / (1 + 1 + 81 + 81) = 2.439 rows; Wilson by statsmodels
    assert weighted.low == pytest.approx(0.1291, abs=1e-4)
    assert weighted.high == pytest.approx(0.9097, abs=1e-4)


def test_one_sidedness_is_tested_by_sign(tmp_path: Path) -> None:
    store = make_cells(tmp_path / "run", unresolved_error=6)
    draw_sample(store, 6, 0, tmp_path / "a.csv")

    result = judge(tmp_path / "a.csv", "", ["yes"] * 6, kind="")

    final = result.aspects["final_correct"]
    assert (final.n_too_generous, final.n_too_strict) == (0, 6)
    assert final.p_one_sided == pytest.approx(2 / 2**6)
    assert result.kinds == {"(none given)": 6}
    assert final.kappa.kappa == 0.0


def test_half_filled_sheets_are_fine(sheet: Path) -> None:
    result = judge(sheet, "", ["no", "unclear"])

    final = result.aspects["final_correct"]
    assert (final.n, final.n_unfilled, final.n_unclear) == (1, 2, 1)
    assert result.n_untouched == 2
    assert result.cells_without_verdict == ("memory_supported_correct",)
    assert final.kappa.kappa is None  # all labels are one category
    assert result.aspects["memory_supports"].n == 0
    assert result.aspects["memory_supports"].weighted_agreement is None


def test_verdicts_are_read_as_people_and_spreadsheets_write_them(sheet: Path) -> None:
    assert judge(sheet, " Yes ", ["N", "?"]).aspects["final_correct"].n == 3
    assert judge(sheet, "TRUE", ["0", "FALSE"]).aspects["final_correct"].agreement == 1.0


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters_and_decimal_commas_are_read(sheet: Path, delimiter: str) -> None:
    rows = read_rows(sheet)
    for row in rows:
        row["final_correct"], row["final_official"] = "yes", "0,5"

    result = read_audit(save(sheet, rows, delimiter))

    assert result.aspects["final_correct"].n_agree == 4


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("final_correct", "maybe", "row 3, column final_correct: 'maybe' is none of: yes, no"),
        ("memory_supports", "2", "row 3, column memory_supports: '2' is none of"),
        ("kind", "typo", "row 3, column kind: 'typo' is none of: alias"),
        ("cell_size", "many", "row 3, column cell_size: 'many' is no count"),
        ("final_official", "1.5", r"row 3, column final_official: '1.5' is no score in \[0, 1\]"),
        ("memory_repaired", "nan", "row 3, column memory_repaired: 'nan' is no score"),
    ],
)
def test_a_wrong_value_is_named_by_row_and_column(
    sheet: Path, column: str, value: str, message: str
) -> None:
    rows = read_rows(sheet)
    rows[1][column] = value

    with pytest.raises(DataError, match=message):
        read_audit(save(sheet, rows))


def test_a_row_that_stands_twice_is_named(sheet: Path) -> None:
    rows = read_rows(sheet)

    with pytest.raises(DataError, match=r"row 6, column question_id: .* stands in row 2 already"):
        read_audit(save(sheet, [*rows, rows[0]]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"question_id,cell\nq,c\n", "has no column final_correct, memory_correct"),
        (b"question_id\n\xe4\n", "is not UTF-8"),
        (b'question_id,"a\n', "not CSV"),
    ],
)
def test_a_file_that_is_no_sheet_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)

    with pytest.raises(DataError, match=message):
        read_audit(path)


def test_a_sheet_without_rows_or_without_a_file_is_refused(sheet: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text(",".join(COLUMNS) + "\n")

    with pytest.raises(DataError, match="no rows under its header"):
        read_audit(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_audit(tmp_path / "gone.csv")
