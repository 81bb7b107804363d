"""Estimates with intervals, paired comparisons and agreement; methods: docs/statistics.md."""
