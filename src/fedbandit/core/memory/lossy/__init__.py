"""Summaries that bound what they have lost coordinate by coordinate (``FSCLB.lean``)."""
