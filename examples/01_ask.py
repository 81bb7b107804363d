"""Ask one question over one document, and let a reader answer from the memory alone."""

import asyncio
from importlib.resources import files

import awm

model = awm.build_model(awm.ModelSettings(spec="lexical"))
path = files("awm.benchmarks") / "demo_corpus/documents/museum_annual_report.pdf"
with awm.open_document(str(path)) as document:
    question = awm.Question("q1", "How many letters did the library answer?", document.id)
    episode = asyncio.run(awm.run_episode(question, document, model, awm.BM25Retriever()))
reading = asyncio.run(awm.read_memory("q1", question.text, episode.memory or (), model))
print(f"answer: {episode.answer}\nmemory: {reading.memory}\nreader: {reading.answer}")
