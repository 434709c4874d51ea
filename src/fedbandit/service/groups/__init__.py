"""Groups of agents, so that few liars do not sway a model: who is in which, and what is told."""
