"""The algorithms: what agents and server compute and exchange. No I/O, no unseeded chance."""
