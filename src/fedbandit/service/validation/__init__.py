"""What an upload must be, what it may be in doubt, and how far it may move a model."""
