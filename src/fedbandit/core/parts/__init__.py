"""The parts that recipes combine: choice of an arm, radius, upload trigger, server's reply."""
