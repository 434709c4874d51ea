"""Numeric functions on arrays; the costly ones are compiled if numba is installed."""
