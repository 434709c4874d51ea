"""The command line: help, errors, JSON, completion, doctor, quickstart."""
