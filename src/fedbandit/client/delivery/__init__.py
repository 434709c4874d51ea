"""What the background thread does: deliver uploads, try again, keep what was refused."""
