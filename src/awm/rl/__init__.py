"""Rewards and group advantages of AWM-GRPO (arXiv 2608.25618), free of any training library."""
