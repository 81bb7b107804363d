"""What another memory would have been worth: `awm intervene`."""
