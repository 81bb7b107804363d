"""The agent: tools, environment, episodes, the frozen reader, and the baselines."""
