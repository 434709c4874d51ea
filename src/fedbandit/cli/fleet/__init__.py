"""``fedbandit fleet`` without the command line: agents that play a world, and what they sent."""
