"""BM25 on the questions and PDFs of MMLongBench-Doc that are at hand."""

from __future__ import annotations

import ast
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from awm.documents import open_document
from awm.retrieval import BM25Retriever


@pytest.fixture
def benchmark() -> Path:
    beside = Path(__file__).parents[2].parent / "shared"
    folder = Path(os.environ.get("AWM_SHARED", beside)) / "data" / "mmlongbench-doc"
    if not (folder / "samples.json").is_file():
        pytest.skip(f"no MMLongBench-Doc at {folder}; set AWM_SHARED")
    return folder


def test_recall_and_speed_on_mmlongbench_doc(benchmark: Path) -> None:
    retriever = BM25Retriever()
    documents = {path.name: open_document(path) for path in benchmark.glob("documents/*.pdf")}
    recalls, seconds = [], []
    for sample in json.loads((benchmark / "samples.json").read_text()):
        evidence = set(ast.literal_eval(sample["evidence_pages"]))
        document = documents.get(sample["doc_id"])
        if document is None or not evidence:
            continue
        retriever.search(document, "", 1)
        start = time.process_time()
        hits = retriever.search(document, sample["question"], 3)
        seconds.append(time.process_time() - start)
        recalls.append(len(evidence & {hit.page for hit in hits}) / len(evidence))
    for document in documents.values():
        document.close()

    assert len(recalls) > 100
    assert np.mean(recalls) > 0.5
    assert np.median(seconds) < 0.3e-3
