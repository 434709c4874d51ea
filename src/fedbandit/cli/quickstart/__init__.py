"""``fedbandit quickstart``: coordinator, agents and sidecar on one machine."""
