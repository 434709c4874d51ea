"""The coordinator's HTTP interface: endpoints, their description, where it listens."""
