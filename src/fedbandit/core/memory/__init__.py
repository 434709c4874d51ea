"""How observations are remembered: as a Gram matrix or a sketch, sent or pending."""
