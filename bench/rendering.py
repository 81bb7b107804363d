"""Pages drawn and encoded per second of CPU time on one core, and the memory that takes.

    python bench/rendering.py --data FOLDER_OF_PDFS [--max-pages 100] [--media-type image/png]

Draws every page of every PDF under the folder at the default settings, in this process, in one
thread, without a cache. Loading the page, drawing and encoding are all counted; opening the file
(which hashes it) is shown on its own.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from awm.documents import RenderSettings, open_document
from awm.errors import DocumentError

TARGET_PAGES_PER_S = 40
TARGET_PEAK_MIB = 150


@dataclass(frozen=True, slots=True)
class FileResult:
    name: str
    n_pages: int
    open_s: float
    draw_s: float
    slowest_s: float
    n_bytes: int


def measure_file(path: Path, settings: RenderSettings, max_pages: int) -> FileResult:
    start = time.process_time()
    document = open_document(path)
    open_s = time.process_time() - start
    page_times = []
    n_bytes = 0
    with document:
        for number in document.page_numbers[:max_pages]:
            start = time.process_time()
            image = document.page(number).image(settings)
            page_times.append(time.process_time() - start)
            n_bytes += len(image.data)
    return FileResult(path.name, len(page_times), open_s, sum(page_times), max(page_times), n_bytes)


def peak_memory_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def print_row(name: str, result: FileResult) -> None:
    per_page_ms = 1000 * result.draw_s / result.n_pages
    print(
        f"{name[:40]:40} {result.n_pages:6} {1000 * result.open_s:8.1f} {per_page_ms:8.1f} "
        f"{1000 * result.slowest_s:8.1f} {result.n_pages / result.draw_s:8.1f} "
        f"{result.n_bytes / result.n_pages / 1000:8.0f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Pages drawn and encoded per second and core.")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds PDFs")
    parser.add_argument("--max-pages", type=int, default=100, help="pages per file at most")
    parser.add_argument("--dpi", type=int, default=144)
    parser.add_argument("--media-type", choices=("image/jpeg", "image/png"), default="image/jpeg")
    options = parser.parse_args()
    settings = RenderSettings(dpi=options.dpi, media_type=options.media_type)

    paths = sorted(options.data.rglob("*.pdf"))
    if not paths:
        print(f"There are no PDFs under {str(options.data)!r}. Name another folder.")
        return 2
    print(
        f"{'file':40} {'pages':>6} {'open ms':>8} {'ms/page':>8} {'max ms':>8} {'pages/s':>8} "
        f"{'kB/page':>8}"
    )
    results = []
    for path in paths:
        try:
            result = measure_file(path, settings, options.max_pages)
        except DocumentError as error:
            print(f"{path.name[:40]:40} {error}")
            continue
        results.append(result)
        print_row(result.name, result)
    if not results:
        return 2
    total = FileResult(
        "all",
        sum(result.n_pages for result in results),
        sum(result.open_s for result in results),
        sum(result.draw_s for result in results),
        max(result.slowest_s for result in results),
        sum(result.n_bytes for result in results),
    )
    print_row("all", total)
    pages_per_s, peak_mib = total.n_pages / total.draw_s, peak_memory_mib()
    print(f"\n{pages_per_s:.1f} pages/s per core (target {TARGET_PAGES_PER_S})")
    print(f"{peak_mib:.0f} MiB peak memory (target {TARGET_PEAK_MIB})")
    return 0 if pages_per_s >= TARGET_PAGES_PER_S and peak_mib < TARGET_PEAK_MIB else 1


if __name__ == "__main__":
    raise SystemExit(main())
