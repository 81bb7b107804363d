"""Training: SFT and GRPO on TRL, with the environment, prompts and parser of evaluation."""
