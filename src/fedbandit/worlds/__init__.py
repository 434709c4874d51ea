"""Where arms and rewards come from."""

from fedbandit.worlds.round import Round, World

__all__ = ["Round", "World"]
