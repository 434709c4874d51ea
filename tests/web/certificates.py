"""Certificates for a server of one's own, and for a client that trusts it."""

import ssl

import trustme

AUTHORITY = trustme.CA()


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(ours)
    theirs = ssl.create_default_context()
    AUTHORITY.configure_trust(theirs)
    return ours, theirs
