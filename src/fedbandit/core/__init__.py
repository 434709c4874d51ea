"""Numbers and protocol. No I/O, no clock, no logging, no randomness of its own."""
