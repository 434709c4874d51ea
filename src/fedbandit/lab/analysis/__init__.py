"""From runs to numbers: curves over trials, means with intervals, summaries, verdicts."""
