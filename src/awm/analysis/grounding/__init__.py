"""Whether the cited page says what a finding says: `awm ground`."""
