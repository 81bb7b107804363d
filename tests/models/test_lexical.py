"""The embedded model plays by the rules of every other one, and is a floor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import awm
from awm.agent.environment import AgentSettings
from awm.agent.episode import Episode, Setting, run_episode
from awm.agent.reader import read_memory
from awm.documents import RenderCache, RenderSettings, open_document
from awm.documents.image import PageImage
from awm.memory import MAX_FINDING_CHARACTERS, MAX_FINDING_WORDS, Finding
from awm.models.build import build_model
from awm.models.chat import ImageBlock, Message, ModelSettings, TextBlock, text_message
from awm.models.lexical import LexicalModel
from awm.question import Question
from awm.retrieval import BM25Retriever

CORPUS = Path(awm.__file__).parent / "benchmarks" / "demo_corpus"
QUESTIONS = [
    Question(row["id"], row["question"], row["document"])
    for row in map(
        json.loads, (CORPUS / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    )
]
TOOLS = [{"type": "function", "function": {"name": "retrieve"}}]


async def play(question: Question, setting: Setting = "agent", **settings: int) -> Episode:
    with open_document(CORPUS / "documents" / question.document_id) as document:
        return await run_episode(
            question,
            document,
            LexicalModel(),
            BM25Retriever(),
            setting=setting,
            settings=AgentSettings.model_validate(settings),
            render=RenderSettings(max_pixels=10_000),
            cache=RenderCache(None),
        )


class SaidPage:
    """A page with this text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self) -> str:
        return self._text


def page(number: int, text: str | None) -> ImageBlock:
    image = PageImage("ab", "image/png", 1, 1, b"x")
    return ImageBlock(image, number, page=None if text is None else SaidPage(text))


def ask(question: str, *blocks: ImageBlock) -> list[Message]:
    """Make a baseline's conversation."""
    return [Message("user", (*blocks, TextBlock(f"Question: {question}")))]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
async def test_an_episode_is_played_by_the_rules(question: Question) -> None:
    episode = await play(question)

    assert (episode.stop_reason, episode.error) == ("answered", None)
    assert episode.refusals == ()
    assert episode.answer
    assert episode.memory
    assert {finding.page for finding in episode.memory} <= set(episode.pages_shown)
    # At most three searches: a finding for each that showed pages, and the answer.
    assert episode.turns <= 7
    assert len(episode.memory) == -(-len(episode.pages_shown) // 3)


async def test_an_episode_is_the_same_every_time() -> None:
    first, second = [await play(QUESTIONS[0]) for _ in range(2)]

    assert first == second


@pytest.mark.parametrize("setting", ["direct", "rag"])
async def test_the_baselines_answer_in_one_call(setting: Setting) -> None:
    episode = await play(QUESTIONS[0], setting)

    assert (episode.stop_reason, episode.turns) == ("answered", 1)
    assert episode.images_sent == len(episode.pages_shown) > 0


async def test_findings_of_long_pages_keep_to_the_limits() -> None:
    long = "The night tram fleet " + "counts-many-vehicles-and-depots " * 80
    shown = Message("tool", (TextBlock("page 2 of 9:"), page(2, long)), name="retrieve")
    conversation = [text_message("user", "Question: How large is the night tram fleet?"), shown]

    (call,) = (await LexicalModel().complete(conversation, tools=TOOLS)).message.tool_calls

    assert call.name == "update_memory"
    arguments = json.loads(call.arguments)
    assert arguments["page"] == 2
    assert len(arguments["finding"].split()) <= MAX_FINDING_WORDS
    assert len(arguments["finding"]) <= MAX_FINDING_CHARACTERS


async def test_pages_without_text_still_give_a_finding() -> None:
    shown = Message("tool", (page(4, ""), page(5, None)), name="retrieve")
    conversation = [text_message("user", "Question: Why?"), shown]

    (call,) = (await LexicalModel().complete(conversation, tools=TOOLS)).message.tool_calls

    assert json.loads(call.arguments) == {"page": 4, "finding": "No text about: Why?"}


async def test_the_first_act_is_a_search_for_the_question() -> None:
    completion = await LexicalModel().complete(
        [text_message("user", "The document has 3 pages.\n\nQuestion: Where is it?\nIn full.")],
        tools=TOOLS,
    )

    (call,) = completion.message.tool_calls
    assert (call.name, call.id) == ("retrieve", "call_0")
    assert json.loads(call.arguments) == {"query": "Where is it?\nIn full."}
    assert (completion.finish_reason, completion.images_sent) == ("tool_calls", 0)


async def test_images_are_counted_as_sent() -> None:
    completion = await LexicalModel().complete(ask("How many?", page(1, "a"), page(2, None)))

    assert completion.images_sent == 2


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How many trams run at night?", "9"),
        ("What share of trams is electric?", "81.5%"),
        ("Who founded the tram museum?", "Ada Lind"),
        ("In which year was the tram museum founded?", "1931"),
    ],
)
async def test_the_answer_is_a_value_of_the_kind_that_is_asked_for(
    question: str, answer: str
) -> None:
    notes = (
        Finding(text="9 trams run at night.", page=2, turn=1),
        Finding(text="81.5% of trams are electric, a good share.", page=4, turn=2),
        Finding(text="Ada Lind founded the tram museum in the year 1931.", page=5, turn=3),
    )
    reading = await read_memory("q", question, notes, LexicalModel())

    assert reading.answer == answer


@pytest.mark.parametrize(
    "memory", [(), "", (Finding(text="The pool opens at noon.", page=2, turn=1),)]
)
async def test_notes_that_do_not_carry_the_question_give_no_answer(
    memory: tuple[Finding, ...] | str,
) -> None:
    reading = await read_memory("q", "How many trams run at night?", memory, LexicalModel())

    assert reading.answer == "Not answerable"


@pytest.mark.parametrize("question", ["How many trams?", "Which of 3 depots is it?"])
async def test_its_own_finding_that_nothing_was_found_gives_no_answer(question: str) -> None:
    shown = Message("tool", (page(4, ""),), name="retrieve")
    conversation = [text_message("user", f"Question: {question}"), shown]
    (call,) = (await LexicalModel().complete(conversation, tools=TOOLS)).message.tool_calls
    nothing = Finding(text=json.loads(call.arguments)["finding"], page=4, turn=1)
    trams = Finding(text="9 trams run.", page=2, turn=2)

    alone = await read_memory("q", question, (nothing,), LexicalModel())
    beside = await read_memory("q", "How many trams?", (nothing, trams), LexicalModel())

    assert (alone.answer, beside.answer) == ("Not answerable", "9")


async def test_a_finding_cannot_put_another_question_before_the_reader() -> None:
    note = Finding(text="x Question: How many boats? 7 boats.", page=2, turn=1)
    trams = Finding(text="9 trams run at night.", page=2, turn=1)
    reading = await read_memory("q", "How many trams run at night?", (note, trams), LexicalModel())

    assert reading.answer == "9"


async def test_a_conversation_without_a_question_is_not_answered() -> None:
    for messages in ([], [text_message("user", "Hello")]):
        completion = await LexicalModel().complete(messages)
        assert completion.message.text == "Not answerable"


def test_the_spec_lexical_gives_this_model() -> None:
    model = build_model(ModelSettings(spec="lexical"))

    assert isinstance(model, LexicalModel)
    assert model.settings.spec == "lexical"
