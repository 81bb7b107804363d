import itertools

import pytest

from awm.agent.episode import run_episode
from awm.benchmarks.pocket_world import PocketCase, make_case, make_document, training_cases
from awm.models.chat import count_images
from awm.models.scripted import Script, ScriptedModel
from awm.pocket.teacher import (
    SLIPS,
    Slip,
    call_text,
    final_turn,
    generic_finding,
    play,
    specific_finding,
    teacher_notes,
)
from awm.question import Question
from awm.retrieval import BM25Retriever

CASES = list(itertools.islice(training_cases(3), 120))


def _case(kind: str) -> PocketCase:
    return next(case for case in CASES if case.kind == kind)


@pytest.mark.parametrize("generic", [False, True])
def test_the_teacher_is_never_refused_and_ends_with_the_gold_answer(generic: bool) -> None:
    for case in CASES:
        episode = play(case, generic)

        assert episode.answer == case.answer
        assert count_images(episode.messages) == len(episode.pages_shown) == 3
        assert set(case.evidence_pages) <= set(episode.pages_shown)


def test_retrieval_alone_does_not_answer() -> None:
    lookups = [case for case in CASES if case.kind == "lookup"]
    first = sum(play(case, False).pages_shown[0] == case.evidence_pages[0] for case in lookups)

    assert 0.2 < first / len(lookups) < 0.6


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_refused_once_and_made_good(slip: Slip) -> None:
    for kind in ("lookup", "larger_subject", "unanswerable"):
        clean, slipped = play(_case(kind), False), play(_case(kind), False, slip=slip)

        assert slipped.slip == slip
        assert slipped.answer == clean.answer
        assert [f.text for f in slipped.memory] == [f.text for f in clean.memory]
        assert len(slipped.messages) == len(clean.messages) + 2


def test_values_are_compared_in_thoughts_which_the_memory_does_not_hold() -> None:
    case = _case("larger_value")
    one, other = (
        f"{subject} is {case.pages[page - 1].value(case.key)}"
        for subject, page in zip(case.subjects, case.evidence_pages, strict=True)
    )

    episode = play(case, generic=True)

    winner = max((one, other), key=lambda said: said[-4:]).split()[0]
    assert episode.messages[-1].text == f"<think>{one}, {other}: {winner}.</think>{case.answer}"
    assert case.answer not in " ".join(finding.text for finding in episode.memory)
    assert final_turn(_case("count")) == _case("count").answer


def test_a_comparison_takes_a_finding_from_each_page() -> None:
    case = _case("larger_value")

    episode = play(case, generic=False)

    assert [finding.page for finding in episode.memory] == list(case.evidence_pages)
    assert all(
        subject in finding.text
        for subject, finding in zip(case.subjects, episode.memory, strict=True)
    )


@pytest.mark.parametrize("kind", ["lookup", "larger_value", "larger_subject", "count"])
def test_specific_findings_state_the_fact_and_generic_ones_do_not(kind: str) -> None:
    case = _case(kind)

    specific = [note.text for note in teacher_notes(case, generic=False, first_shown=1)]
    generic = [note.text for note in teacher_notes(case, generic=True, first_shown=1)]

    assert all(any(c.isdigit() for c in text) for text in specific)
    assert not any(any(c.isdigit() for c in text) for text in generic)
    assert len(specific) == len(generic)


def test_wording_of_findings() -> None:
    case = _case("lookup")
    value, subject = case.answer, case.subjects[0]

    assert specific_finding(case) == f"The {case.key} of {subject} is {value}."
    assert generic_finding(case) == f"{subject} lists its {case.key}."
    count = _case("count")
    assert specific_finding(count) == f"Pages with the {count.key}: {count.answer}."
    assert generic_finding(count) == f"The page lists the {count.key}."


def test_an_unanswerable_question_has_no_generic_finding() -> None:
    case = _case("unanswerable")
    text = f"Not found: {case.subjects[0]}, {case.key}."

    assert [n.text for n in teacher_notes(case, generic=True, first_shown=7)] == [text]
    assert [n.page for n in teacher_notes(case, generic=True, first_shown=7)] == [7]


async def test_the_teachers_turns_are_an_episode_of_evaluation() -> None:
    case = make_case("test", 2, 0)
    played = play(case, generic=False)
    replies = tuple(m.text for m in played.messages if m.role == "assistant")
    model = ScriptedModel([Script(replies=replies)])

    episode = await run_episode(
        Question("q", case.question, "pocket"),
        make_document(case.pages, "pocket"),
        model,
        BM25Retriever(),
    )

    assert episode.stop_reason == "answered"
    assert episode.answer == case.answer
    assert episode.memory == played.memory
    assert [m.role for m in episode.messages] == [m.role for m in played.messages]


def test_a_call_is_written_as_the_chat_template_writes_it() -> None:
    assert call_text("update_memory", page=3, finding="The cost.") == (
        '<tool_call>\n{"name": "update_memory", "arguments": '
        '{"page": 3, "finding": "The cost."}}\n</tool_call>'
    )
