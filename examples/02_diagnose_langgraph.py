"""Diagnose a LangGraph agent: its messages in, the four outcome cells out."""

import json
import tempfile
from pathlib import Path

from awm.analysis.diagnosis.log_table import read_table
from awm.analysis.diagnosis.logs import Log
from awm.analysis.diagnosis.message_logs import langgraph_converter
from awm.analysis.diagnosis.run import diagnose


def final_state(question: str, note: str, answer: str) -> list[dict[str, object]]:
    """Stand in for `[m.model_dump() for m in graph.invoke(...)["messages"]]`."""
    call = {"name": "save_note", "args": {"text": note, "page": 5}, "id": "call_1"}
    return [
        {"type": "human", "content": question},
        {"type": "ai", "content": "", "tool_calls": [call]},
        {"type": "tool", "content": "saved", "tool_call_id": "call_1", "status": "success"},
        {"type": "ai", "content": answer, "tool_calls": []},
    ]


def main() -> None:
    """Log two questions, one whose note says nothing, and print what the memory is worth."""
    share, use = "What share was produced within the region?", "How many GWh were used in 2020?"
    rows = [
        {
            "messages": final_state(share, "18.6 % was produced within the region.", "18.6 %"),
            "document": "energy_report.pdf",
            "gold": "18.6%",
            "format": "Float",
            "evidence_pages": [5],
            "memory_answer": "18.6 %",
        },
        {
            "messages": final_state(use, "The table lists the use by sector.", "412"),
            "document": "energy_report.pdf",
            "gold": 412,
            "format": "Int",
            "evidence_pages": [4],
            "memory_answer": "Not answerable",
        },
    ]
    path = Path(tempfile.mkdtemp()) / "langgraph.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    log = Log(path, "mmlongbench-doc", langgraph_converter(memory_tool="save_note"))
    table = read_table(log, "mmlongbench-doc", has_reader=False, has_extractor=False)
    found = diagnose(table).as_json()
    print("cells:", found["cells"])
    print("P_mmc:", found["p_mmc"])
    print("cited pages that are gold:", found["audits"]["rates"]["pages_in_evidence"]["value"])


main()
