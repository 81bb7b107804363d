"""Ask one question over one document, and let a reader answer from the memory alone."""

import asyncio
from importlib.resources import files

from awm import ModelSettings, Question, build_model, open_document, read_memory, run_episode
from awm.retrieval import BM25Retriever


async def main() -> None:
    """Run one episode with the embedded model and print what it leaves."""
    model = build_model(ModelSettings(spec="lexical"))
    path = files("awm.benchmarks") / "demo_corpus/documents/museum_annual_report.pdf"
    with open_document(str(path)) as document:
        question = Question("q1", "How many letters did the library answer?", document.id)
        episode = await run_episode(question, document, model, BM25Retriever())
    reading = await read_memory(question.id, question.text, episode.memory or (), model)
    print("answer:", episode.answer)
    print("memory:", reading.memory)
    print("reader:", reading.answer)


asyncio.run(main())
