"""Agents and servers carried by frameworks of others."""
