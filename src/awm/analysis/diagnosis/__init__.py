"""The analysis of any system's log: `awm diagnose`."""
