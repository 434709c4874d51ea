"""What an upload must be, how far it is believed, and how far it may move a model."""
