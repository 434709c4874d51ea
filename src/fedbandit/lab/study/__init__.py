"""Algorithms compared at the same settings: radii picked on other seeds, then reported trials."""
