"""fedbandit on Flower."""
