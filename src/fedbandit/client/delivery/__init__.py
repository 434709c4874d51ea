"""What the background thread does: deliver uploads, try again, keep the state in order."""
