"""The algorithms: recipes, each made of parts and a memory."""
