"""Worlds made from data sets: the bundled ones, OpenML's, and local files."""
