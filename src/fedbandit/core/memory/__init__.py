"""What is remembered of the observations: Gram matrices and sketches, pending data, readings."""
