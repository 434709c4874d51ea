"""Making runs: tasks, workers, and the files that finished runs are kept in."""
