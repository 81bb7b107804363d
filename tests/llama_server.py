"""llama.cpp's own OpenAI-compatible server with a small model, as a process: `python FILE MODEL`.

It prints its base URL once it answers, and ends when its standard input closes.
"""

from __future__ import annotations

import sys

import xllamacpp


def main(model: str) -> None:
    """Serve on a free port of the loopback."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
