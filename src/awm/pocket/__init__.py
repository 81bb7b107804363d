"""The pocket world's models: a tiny Qwen3-VL that reads pages on a laptop, and a tiny reader.

The documents and questions are those of `awm.benchmarks.pocket_world`. `teacher` plays them by the
rules, `memories` makes what a reader learns from, and the rest trains both (`awm pocket train`).
Only `tokenizer`, `model`, `vision`, `imitation`, `reader` and `train` need torch and transformers
(extra `local`).
"""
