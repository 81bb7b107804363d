"""What our client adds to a model server's own time: wall against ideal, and CPU per call.

    python bench/client.py

Starts `bench/mock_server.py` with a fixed delay and sends calls of three page images each. The
ideal is calls x delay / in flight; use multiples of the number in flight, or the last wave is
charged to the client. Random bytes stand for JPEG files: base64 does not care.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import uvloop

from awm.documents.image import PageImage
from awm.models.chat import ImageBlock, Message, ModelSettings, TextBlock, text_message
from awm.models.openai import OpenAIModel

IMAGE_BYTES = 150_000
PAGES = 30
SETTINGS = ((640, 64), (1280, 256))


def make_pages() -> list[PageImage]:
    source = random.Random(0)
    files = [source.randbytes(IMAGE_BYTES) for _ in range(PAGES)]
    return [
        PageImage(hashlib.sha256(data).hexdigest(), "image/jpeg", 1000, 1400, data)
        for data in files
    ]


def conversation(pages: list[PageImage], first: int) -> list[Message]:
    blocks: list[TextBlock | ImageBlock] = []
    for k in range(first, first + 3):
        number = k % PAGES + 1
        blocks.append(TextBlock(f"page {number} of {PAGES}"))
        blocks.append(ImageBlock(pages[number - 1], number))
    return [
        text_message("system", "Answer from the page images."),
        Message(role="user", content=(TextBlock("What is the total?"), *blocks)),
    ]


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def measure(base_url: str, calls: int, in_flight: int, delay_s: float) -> str:
    settings = ModelSettings(spec=f"openai:mock@{base_url}", max_in_flight=in_flight)
    model = OpenAIModel(settings)
    pages = make_pages()
    for first in range(0, PAGES, 3):  # images encoded, as in a long run
        await model.complete(conversation(pages, first))
    cpu_before_s, started_s = cpu_s(), time.perf_counter()
    results = await asyncio.gather(
        *(model.complete(conversation(pages, 3 * i)) for i in range(calls))
    )
    wall_s, used_s = time.perf_counter() - started_s, cpu_s() - cpu_before_s
    await model.aclose()
    assert all(result.images_sent == 3 and result.retries == 0 for result in results)
    ideal_s = calls * delay_s / in_flight
    return (
        f"{calls:>5} calls, {in_flight:>3} in flight: wall {wall_s:.2f} s, ideal {ideal_s:.2f} s, "
        f"{wall_s / ideal_s:.2f}x; {1000 * used_s / calls:.2f} CPU-ms a call"
    )


def main() -> None:
    """Start the server, measure, print."""
    parser = argparse.ArgumentParser(description="Measure the model client.")
    parser.add_argument("--delay-ms", type=float, default=200.0)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    script = Path(__file__).with_name("mock_server.py")
    command = [sys.executable, str(script), "--port", "0", "--delay-ms", str(arguments.delay_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            ready = re.search(r"http://\S+", server.stdout.readline())
            assert ready is not None, "the mock server did not start"
            for _ in range(arguments.repeats):
                for calls, in_flight in SETTINGS:
                    line = uvloop.run(
                        measure(ready[0], calls, in_flight, arguments.delay_ms / 1000)
                    )
                    print(line, flush=True)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
