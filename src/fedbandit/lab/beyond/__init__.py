"""FSCLB.lean against the paper's own settings and FedLinUCB."""
