"""What may stand in a ``Host``: names of a server on this machine, and of others."""

OURS = ["localhost", "LOCALHOST:8401", "127.0.0.1", "127.0.0.1:1", "127.9.9.9", "[::1]:8401"]
STRANGERS = [
    *("evil.example", "evil.example:8401", "localhost.evil.example", "127.0.0.1.evil.example"),
    *("", ":8401", "10.0.0.1", "[::]", "[fe80::1]", "0.0.0.0", "evil.example@localhost", "["),
]
