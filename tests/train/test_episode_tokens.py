"""What is trained is what is measured: one episode, two drivers, the same token ids."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `local` is not installed")
pytest.importorskip("trl", reason="the extra `train` is not installed")

from training_world import call, grpo_settings, make_world, play, scripted_reader  # noqa: E402

from awm.agent.episode import run_episode  # noqa: E402
from awm.agent.prompt import ANSWER_REFUSED, FINDING_FIRST  # noqa: E402
from awm.errors import AgentError, MissingImageError  # noqa: E402
from awm.models.chat import Message, ToolCall, text_message  # noqa: E402
from awm.models.scripted import Script, ScriptedModel  # noqa: E402
from awm.retrieval import BM25Retriever  # noqa: E402
from awm.rl.advantage import group_advantages  # noqa: E402
from awm.rl.reward import RewardSettings  # noqa: E402
from awm.train.grpo import make_trainer  # noqa: E402
from awm.train.metrics import TrainingRecord  # noqa: E402
from awm.train.policy import load_policy  # noqa: E402
from awm.train.preflight import check_images  # noqa: E402
from awm.train.rendering import ChatRenderer, check_rendering  # noqa: E402
from awm.train.reward import MemoryReward, TrajectoryScorer  # noqa: E402
from awm.train.rows import IGNORED, make_row  # noqa: E402
from awm.train.trainer import AwmGRPOTrainer  # noqa: E402
from awm.train.trl import TrainingWorld  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

Turns = Sequence[str]


def first_page(world: TrainingWorld, question_id: str) -> int:
    episode = world.open_episode(question_id)
    episode.step(text_message("assistant", call("retrieve", query="cost")))
    return episode.result().pages_shown[0]


def episodes(world: TrainingWorld) -> dict[str, Turns]:
    """Give one script for each rule of an episode, by the id of its question."""
    ids = list(world.examples)
    page = [first_page(world, id_) for id_ in ids]
    look = call("retrieve", query="cost")
    return {
        ids[0]: [look, call("update_memory", page=page[0], finding="The cost is 17."), "17"],
        ids[1]: [look, "17", call("update_memory", page=page[1], finding="A cost."), "17"],
        ids[2]: [look[:-12], look, look, call("update_memory", page=page[2], finding="It."), "2"],
        ids[3]: [
            look + "\n" + call("update_memory", page=page[3], finding="Unseen."),
            call("update_memory", page=page[3], finding="Seen."),
            "Not answerable",
        ],
    }


class ScriptedSampler(AwmGRPOTrainer):
    """Samples the turns of scripts in place of the model's."""

    def follow(self, scripts: dict[str, Turns]) -> None:
        """Answer each question by its script."""
        self._by_question = {
            self.world.prompt_messages(id_)[-1].text: turns for id_, turns in scripts.items()
        }
        self._by_slot: list[Turns] = []

    def follow_slots(self, scripts: Sequence[Turns]) -> None:
        """Answer by a script for each rollout of the batch; all have the same number of turns."""
        self._by_slot = list(scripts)

    def _generate_single_turn(
        self, prompt_ids: Any, images: Any, fields: Any, *_: Any, **__: Any
    ) -> tuple[Any, Any]:
        sampled = []
        for slot, ids in enumerate(prompt_ids):
            text = self._tokenizer.decode(ids)
            turn = text.count("<|im_start|>assistant") - 1
            if self._by_slot:
                script = self._by_slot[slot]
            else:
                script = next(s for q, s in self._by_question.items() if q in text)
            said = script[turn] + self._tokenizer.eos_token
            sampled.append(self._tokenizer(said, add_special_tokens=False)["input_ids"])
        return sampled, None


def sampler(
    policy_folder: Path, world: TrainingWorld, reader: ScriptedModel, group_size: int = 4
) -> ScriptedSampler:
    import awm.train.trainer as trainer_module

    settings = grpo_settings(policy_folder, policy_folder.parent / "unused", group_size=group_size)
    model, processor = load_policy(settings.policy)
    reward = MemoryReward(TrajectoryScorer(world.benchmark, reader, RewardSettings()))
    trainer = make_trainer(
        settings, world, None, model, processor, reward, trainer_class=ScriptedSampler
    )
    assert trainer_module.AwmGRPOTrainer in type(trainer).__mro__
    assert isinstance(trainer, ScriptedSampler)
    return trainer


def roll_out(trainer: ScriptedSampler, question_ids: Sequence[str]) -> dict[str, Any]:
    trainer.model.train()
    rows = [trainer.world.dataset_row(id_) for id_ in question_ids]
    return trainer._generate_and_score_completions(rows)


async def evaluated_conversation(
    world: TrainingWorld, question_id: str, turns: Turns
) -> tuple[Message, ...]:
    example = world.examples[question_id]
    model = ScriptedModel([Script(replies=tuple(turns))])
    with world.benchmark.open_document(example.question.document_id) as document:
        await run_episode(example.question, document, model, BM25Retriever(), settings=world.agent)
    return (*model.conversations[-1], text_message("assistant", turns[-1]))


def evaluation_ids(renderer: ChatRenderer, conversation: Sequence[Message]) -> list[int]:
    """Render a conversation as evaluation does: as a whole, by template and processor."""
    from awm.train.rendering import open_image

    text = renderer.text(conversation).removesuffix("\n")
    images = [open_image(b.image) for message in conversation for b in message.images]
    inputs = renderer.processor(text=[text], images=images, add_special_tokens=False)
    ids: list[int] = inputs["input_ids"][0]
    return list(ids)


@pytest.fixture(scope="module")
def world() -> TrainingWorld:
    return make_world(4)


@pytest.fixture(scope="module")
def played(policy_folder: Path, world: TrainingWorld) -> tuple[ScriptedSampler, dict[str, Any]]:
    trainer = sampler(policy_folder, world, scripted_reader("17"))
    trainer.follow(episodes(world))
    return trainer, roll_out(trainer, list(world.examples))


@pytest.mark.parametrize("number", range(4))
def test_an_episode_has_the_same_tokens_in_evaluation_and_in_training(
    played: tuple[ScriptedSampler, dict[str, Any]], world: TrainingWorld, number: int
) -> None:
    trainer, output = played
    question_id, turns = list(episodes(world).items())[number]
    conversation = asyncio.run(evaluated_conversation(world, question_id, turns))

    masks = torch.cat([output["prompt_mask"], output["completion_mask"]], 1)[number].bool()
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], 1)[number][masks].tolist()

    assert ids == evaluation_ids(trainer._renderer, conversation)


def test_refused_answers_and_calls_are_answered_and_the_episode_goes_on(
    played: tuple[ScriptedSampler, dict[str, Any]],
) -> None:
    trainer, _ = played
    results = [environment._result() for environment in trainer.environments]

    assert [result.answer for result in results] == ["17", "17", "2", "Not answerable"]
    told = [[refusal.message for refusal in result.refusals] for result in results]
    assert told[0] == []
    assert told[1] == [ANSWER_REFUSED]
    assert "without its </tool_call>" in told[2][0]
    assert told[2][1] == FINDING_FIRST
    assert "was not shown to you" in told[3][0]


def test_the_loss_is_on_the_sampled_tokens_alone(
    played: tuple[ScriptedSampler, dict[str, Any]], world: TrainingWorld
) -> None:
    trainer, output = played
    eos = trainer._tokenizer.eos_token
    for i, turns in enumerate(episodes(world).values()):
        trained = (output["tool_mask"][i] * output["completion_mask"][i]).bool()
        text = trainer._tokenizer.decode(output["completion_ids"][i][trained])
        assert text == "".join(turn + eos for turn in turns)


def test_imitation_trains_on_the_same_tokens_as_grpo(
    played: tuple[ScriptedSampler, dict[str, Any]], world: TrainingWorld
) -> None:
    trainer, output = played
    for i, (question_id, turns) in enumerate(episodes(world).items()):
        row = make_row(trainer._renderer, play(world, question_id, turns))
        mask = output["completion_mask"][i].bool()
        n_prompt = int(output["prompt_mask"][i].sum())
        assert row.ids[n_prompt:] == output["completion_ids"][i][mask].tolist()
        trained = [label != IGNORED for label in row.labels[n_prompt:]]
        assert trained == output["tool_mask"][i][mask].bool().tolist()


def test_structured_calls_have_the_tokens_of_textual_ones(
    renderer: ChatRenderer, world: TrainingWorld
) -> None:
    question_id, turns = next(iter(episodes(world).items()))
    textual = play(world, question_id, turns)
    structured = [
        Message(role="assistant", tool_calls=(ToolCall("retrieve", '{"query": "cost"}'),))
        if message.text == turns[0]
        else message
        for message in textual
    ]

    assert make_row(renderer, structured).ids == make_row(renderer, textual).ids
    check_rendering(renderer, structured)
    assert check_images(renderer, [structured]).is_passed


def test_the_question_is_no_parameter_of_a_tool(world: TrainingWorld) -> None:
    names = [set(s["function"]["parameters"]["properties"]) for s in world.tool_schemas()]

    assert names == [{"query"}, {"page", "finding"}]


def test_an_observation_that_does_not_fit_is_left_out_whole(
    policy_folder: Path, world: TrainingWorld
) -> None:
    trainer = sampler(policy_folder, world, scripted_reader("17"))
    trainer.follow(episodes(world))
    trainer.max_completion_length = 60

    output = roll_out(trainer, list(world.examples))

    assert "pixel_values" not in output
    assert not (output["completion_ids"] == trainer._renderer.image_token_id).any()
    assert all(environment._is_cut for environment in trainer.environments)
    assert [e._result().answer for e in trainer.environments] == [None] * 4
    record = trainer._recorder.take("train", 1)
    assert record is not None
    assert record.cut_share == 1.0


def test_an_unmeasured_rollout_is_left_out_of_its_group(
    policy_folder: Path, world: TrainingWorld
) -> None:
    question_id = next(iter(world.examples))
    gold = str(world.examples[question_id].gold.answer)
    page = first_page(world, question_id)
    trainer = sampler(policy_folder, world, scripted_reader(gold, Blurred="timeout"))
    records: list[TrainingRecord] = []
    trainer._on_record = lambda _, record: records.append(record)

    def episode(finding: str, answer: str) -> Turns:
        look = call("retrieve", query="cost")
        return [look, call("update_memory", page=page, finding=finding), answer]

    scripts = [
        episode("Clear.", gold),
        episode("Blurred.", gold),
        episode("Clear.", "nothing"),
        episode("Clear.", gold),
    ]
    trainer.follow_slots(scripts)

    output = roll_out(trainer, [question_id] * 4)

    expected = group_advantages([1.0, float("nan"), 0.2, 1.0])  # type: ignore[arg-type]
    assert output["advantages"].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert output["advantages"][1] == 0.0
    trainer.log({})
    assert records[0].groups.n_unmeasured == 1
    assert records[0].groups.mean_reward == pytest.approx((1.0 + 0.2 + 1.0) / 3)


def test_images_that_are_dropped_before_the_loss_stop_training(
    played: tuple[ScriptedSampler, dict[str, Any]],
) -> None:
    trainer, output = played
    without = {k: v for k, v in output.items() if k not in ("pixel_values", "image_grid_thw")}

    with pytest.raises(MissingImageError, match="page images were shown and 0 arrived"):
        trainer._check_images(without, 12, "from the rollouts to the loss")
    with pytest.raises(MissingImageError, match="nothing is trained on such a row"):
        trainer._compute_loss(trainer.model, without)


def test_a_fault_of_the_environment_stops_training(
    policy_folder: Path, world: TrainingWorld
) -> None:
    class Torn:
        def search(self, *_: object, **__: object) -> list[object]:
            raise KeyError("index")

    broken = TrainingWorld(
        world.benchmark,
        list(world.examples.values()),
        world.agent,
        retriever=Torn(),  # type: ignore[arg-type]
    )
    environment = broken.new_environment()
    environment.reset(**broken.dataset_row(next(iter(world.examples))))

    with pytest.raises(KeyError):
        environment.retrieve("cost")
    with pytest.raises(AgentError, match=r"the environment failed on question .*KeyError: 'index'"):
        environment._result()


def test_a_plain_trl_rollout_keeps_the_answer_gate(world: TrainingWorld) -> None:
    question_id = next(iter(world.examples))
    environment = world.new_environment()
    environment.reset(**world.dataset_row(question_id))

    shown = environment.retrieve("cost")
    environment._conclude([{"role": "assistant", "content": "17"}])

    assert sum(block["type"] == "image" for block in shown) == 3
    result = environment._result()
    assert (result.answer, len(result.refusals)) == (None, 1)
    assert environment.update_memory(1, "late") == [{"type": "text", "text": "No turn is left."}]


def test_special_tokens_are_never_sampled_but_the_end(
    played: tuple[ScriptedSampler, dict[str, Any]],
) -> None:
    trainer, _ = played
    suppressed = set(trainer.generation_config.suppress_tokens)
    ends = {trainer._tokenizer.eos_token_id}

    assert set(trainer._tokenizer.all_special_ids) - ends <= suppressed
    assert not ends & suppressed


def test_the_vision_tower_is_frozen_and_the_rest_is_not(policy: tuple[Any, Any]) -> None:
    model, _ = policy

    assert not any(p.requires_grad for p in model.model.visual.parameters())
    assert all(p.requires_grad for p in model.model.language_model.parameters())
