"""Analysis of runs: summaries, statistics, comparisons."""
