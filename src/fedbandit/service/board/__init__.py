"""The board: pages that show how models do, and what they show."""
