"""What a coordinator serves: models, what was merged of each agent, models as files."""
