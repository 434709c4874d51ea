"""The paper's experiments: settings, radii, claims beside measurements, the report."""
