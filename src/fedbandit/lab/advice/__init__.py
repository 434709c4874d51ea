"""Which sketch size suits some data."""

from fedbandit.lab.advice.advice import advise

__all__ = ["advise"]
