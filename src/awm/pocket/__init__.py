"""The pocket world: generated documents, and a tiny Qwen3-VL that reads them on a laptop.

`world` draws the documents and asks the questions, `teacher` plays them by the rules, and the rest
trains a policy and a reader (`awm pocket train`). Only `tokenizer`, `model`, `vision`,
`imitation`, `reader` and `train` need torch and transformers (extra `local`).
"""
