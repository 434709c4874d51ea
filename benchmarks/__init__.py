"""Performance as ratios in one run: contenders alternate, one thread, medians. ``make bench``."""
