"""The paper's experiments: its algorithms, claims beside measurements, the report."""
