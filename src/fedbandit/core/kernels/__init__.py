"""Numbers: functions on arrays, each compiled where numba is installed."""
