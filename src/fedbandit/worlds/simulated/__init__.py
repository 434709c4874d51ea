"""Worlds that are drawn from a seed: linear rewards, and what makes them hard."""
