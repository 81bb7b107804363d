"""The tokenizer and the processor of the pocket models.

Bytes, and one token for each word and each constant piece of text that the pocket world is made
of: subjects, kinds of fact, pairs of digits, the fragments of a call's JSON, and the blocks of our
prompts. The text of a conversation is exactly that of the Qwen3-VL chat template, only its number
of tokens shrinks from thousands to about two hundred. A call stays JSON that can go wrong.

The pieces come from `awm.agent.prompt` and the tools' schemas, in a fixed order. After a change of
the wording the same rows of the embedding stand for the new text, so the weights stay good;
`awm pocket tokenizer` writes the folders' tokenizers anew.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from string import Formatter
from typing import Any

from awm._extras import require
from awm.agent import prompt
from awm.agent.tools import retrieve_schema, update_memory_schema
from awm.benchmarks.pocket_world import HEIGHT_PX, KEYS, NAMES, NOT_ANSWERABLE, PATCH_PX, WIDTH_PX
from awm.memory import EMPTY_MEMORY

END_OF_TEXT, END_OF_TURN, START_OF_TURN = "<|endoftext|>", "<|im_end|>", "<|im_start|>"
IMAGE_START, IMAGE_PAD, IMAGE_END = "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"
VIDEO_PAD = "<|video_pad|>"
SPECIAL_TOKENS = [
    END_OF_TEXT,
    START_OF_TURN,
    END_OF_TURN,
    IMAGE_START,
    IMAGE_END,
    "<|vision_pad|>",
    IMAGE_PAD,
    VIDEO_PAD,
]
_TAGS = [
    f"<{slash}{tag}>" for tag in ("tool_call", "tool_response", "think") for slash in ("", "/")
]
ASSISTANT = "assistant\n"
_ROLES = ["user\n", ASSISTANT, "user\n<tool_response>\n", "\n</tool_response>"]
_SENTINELS = ("7770001", "7770002")
_CALL_PIECES = ['\n{"name": "', "retrieve", "update_memory", '", "arguments": {"', "query", "page"]
_CALL_PIECES += ["finding", '": "', '": ', ', "', '"}}\n']
_QUESTION_PIECES = ["What is the ", "What is the larger ", "Which has the larger "]
_QUESTION_PIECES += ["How many pages list the ", " of ", ", ", " or ", "?"]
_FINDING_PIECES = ["The ", " is ", ".", "The page lists the ", "Not found: ", " lists its "]
_FINDING_PIECES += ["Pages with the ", ": "]


@cache
def chat_template() -> str:
    """Give Qwen3-VL's chat template, unchanged: trainers know it by its exact text."""
    return (resources.files("awm.pocket") / "chat_template.jinja").read_text(encoding="utf-8")


def _literals(template: str) -> list[str]:
    return [text for text, *_ in Formatter().parse(template) if text]


def _system_blocks(plain: Any) -> list[str]:
    """Split the agent's rendered system message at the numbers that settings can change."""
    max_turns, top_k = map(int, _SENTINELS)
    text = plain.apply_chat_template(
        [
            {"role": "system", "content": prompt.agent_system(max_turns)},
            {"role": "user", "content": "?"},
        ],
        tools=[retrieve_schema(top_k), update_memory_schema()],
        tokenize=False,
    )
    text = text.partition(START_OF_TURN)[2].partition(END_OF_TURN)[0]
    for sentinel in _SENTINELS:
        text = text.replace(sentinel, "\0")
    return list(text.split("\0"))


def structure_pieces(plain: Any) -> list[str]:
    """Give the blocks that only templates and environments write, never a model."""
    user = _literals(prompt.AGENT_USER.format(page_count="{}", window="", question="{}"))
    notes = _literals(prompt.READER_USER)
    return [
        *_system_blocks(plain),
        f"system\n{prompt.READER_SYSTEM}",
        f"user\n{user[0]}",
        user[1],
        f"user\n{notes[0]}",
        notes[1],
        prompt.FINDING_FIRST,
        prompt.ANSWER_REFUSED,
        prompt.NO_PAGE_LEFT,
        _literals(prompt.SAVED)[0],
        EMPTY_MEMORY,
        *_ROLES,
    ]


def text_pieces() -> list[str]:
    """Give the words and fragments that a model may write."""
    pairs = [f"{number:02d}" for number in range(100)]
    saved = _literals(prompt.SAVED)[1].rstrip(".")
    labels = [*_literals(prompt.PAGE_LABEL), "[p. ", "] ", saved + ".", saved + "s."]
    pieces = [
        *pairs,
        *KEYS,
        *NAMES,
        *_CALL_PIECES,
        *_QUESTION_PIECES,
        *_FINDING_PIECES,
        *labels,
        NOT_ANSWERABLE,
    ]
    return list(dict.fromkeys(pieces))


def build_tokenizer() -> Any:
    """Make the tokenizer, with the chat template."""
    plain = _tokenizer([])
    return _tokenizer([*text_pieces(), *structure_pieces(plain)])


def _tokenizer(pieces: list[str]) -> Any:
    tokenizers = require("tokenizers", "local")
    require("tokenizers.models", "local")
    transformers = require("transformers", "local")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: i for i, character in enumerate(alphabet)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()

    def added(text: str, special: bool) -> Any:
        return tokenizers.AddedToken(text, special=special, normalized=False)

    tokenizer.add_special_tokens([added(text, True) for text in SPECIAL_TOKENS])
    tokenizer.add_tokens([added(text, False) for text in _TAGS + pieces])
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        pad_token=END_OF_TEXT,
        padding_side="left",
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
        extra_special_tokens={
            "image_token": IMAGE_PAD,
            "video_token": VIDEO_PAD,
            "vision_bos_token": IMAGE_START,
            "vision_eos_token": IMAGE_END,
        },
    )
    made.chat_template = chat_template()
    return made


def build_processor() -> Any:
    """Make the policy's processor: the tokenizer and an image processor for pocket pages."""
    require("transformers", "local")
    from awm.models.local_processor import ImageOnlyProcessor, Qwen2VLImageProcessorPil

    images = Qwen2VLImageProcessorPil(
        patch_size=PATCH_PX,
        temporal_patch_size=2,
        merge_size=1,
        size={"shortest_edge": WIDTH_PX * HEIGHT_PX, "longest_edge": WIDTH_PX * HEIGHT_PX},
        image_mean=[1.0] * 3,
        image_std=[0.25] * 3,
    )
    return ImageOnlyProcessor(images, build_tokenizer(), chat_template=chat_template())


def never_sampled(tokenizer: Any) -> list[int]:
    """Give the ids that a policy must not sample: special tokens but the end, and our blocks."""
    special = [token for token in SPECIAL_TOKENS if token != END_OF_TURN]
    return sorted(map(tokenizer.convert_tokens_to_ids, special + structure_pieces(_tokenizer([]))))


def tool_schemas() -> list[dict[str, Any]]:
    """Give the agent's tools with the default settings."""
    return json.loads(json.dumps([retrieve_schema(3), update_memory_schema()]))  # type: ignore[no-any-return]
