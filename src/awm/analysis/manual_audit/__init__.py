"""Judgements checked by people: a sample, a sheet to fill in, and what it says."""
