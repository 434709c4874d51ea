"""What a coordinator serves: models, what agents are told of them, undo, models as files."""
