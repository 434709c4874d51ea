"""A coordinator that is itself an agent of another one."""
