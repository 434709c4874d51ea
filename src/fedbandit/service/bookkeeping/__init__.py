"""What a store keeps about a model and its agents, as frozen values."""
