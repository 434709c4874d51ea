"""Experiments written down: specs, their files, sweeps, and kinds of one's own."""
