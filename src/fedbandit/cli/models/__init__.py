"""What the commands for models share: their rules, and their past."""
