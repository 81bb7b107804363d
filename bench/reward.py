"""What scoring a batch of rollouts costs while a training waits for it.

    python bench/reward.py

The mock server answers every call after 300 ms. A batch of 64 trajectories is read by the frozen
reader and judged, first without and then with an extractor behind the same server. The trajectories
are scored at once, so the batch takes about one call (reader), or two in a row (reader, then the
extraction of what it said). The target for the first is 1 s.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import time

from awm.agent.environment import EnvironmentResult
from awm.benchmarks import Example
from awm.memory import Finding
from awm.models.build import build_model
from awm.models.chat import ModelSettings
from awm.pocket.grpo import training_benchmark
from awm.rl.reward import RewardSettings
from awm.scoring.extraction import ExtractionPrompt
from awm.train.reward import TrajectoryScorer
from harness import mock_server

BATCH = 64
TARGET_S = 1.0


def rollouts() -> list[tuple[Example, EnvironmentResult]]:
    """Give trajectories with an answer and a memory of three findings each."""
    examples = training_benchmark(0, BATCH).examples
    memory = tuple(
        Finding(text=f"Sales of region {k} were {k}.7 million euros in 2020.", page=k, turn=k)
        for k in (1, 2, 3)
    )
    ended = EnvironmentResult("Answer: 42", memory, "answered", (1, 2, 3), 5, (), 3)
    return [(example, ended) for example in examples]


async def score(base_url: str, *, extracts: bool) -> tuple[float, float]:
    """Score a batch twice, and give wall and CPU seconds of the second time."""
    benchmark = training_benchmark(0, 1)
    settings = ModelSettings(spec=f"openai:mock@{base_url}", max_in_flight=2 * BATCH)
    reader = build_model(settings)
    scorer = TrajectoryScorer(
        benchmark,
        reader,
        RewardSettings(),
        extractor=build_model(settings) if extracts else None,
        prompt=ExtractionPrompt.own("labelled") if extracts else None,
    )
    batch = rollouts()
    await scorer.score_all(batch)  # opens the connections
    began_s, cpu_before_s = time.perf_counter(), cpu_s()
    scored = await scorer.score_all(batch)
    took = time.perf_counter() - began_s, cpu_s() - cpu_before_s
    assert all(one.reward is not None for one in scored), scored[0]
    await reader.aclose()
    if scorer.extractor is not None:
        await scorer.extractor.aclose()
    return took


def cpu_s() -> float:
    """Give this process's CPU time so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Measure both, and say whether the target was met."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=300)
    delay_ms = parser.parse_args().delay_ms
    met = True
    with mock_server(delay_ms) as base_url:
        for extracts in (False, True):
            wall_s, used_s = asyncio.run(score(base_url, extracts=extracts))
            name = "reader and extractor" if extracts else "reader"
            print(
                f"{BATCH} trajectories, {name}, {delay_ms:.0f} ms a call: wall {wall_s:.2f} s, "
                f"{1000 * used_s / BATCH:.2f} CPU-ms a trajectory"
            )
            met = met and (extracts or wall_s < TARGET_S)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
