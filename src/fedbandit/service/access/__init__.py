"""Who may ask for what, how often they may be wrong about it, and the log of what was done."""
