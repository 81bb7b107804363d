"""Chat models: one protocol, and the adapters behind it."""
