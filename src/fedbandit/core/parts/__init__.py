"""What an algorithm is made of: how to choose, when to talk, whom to answer, how wide to hope."""
