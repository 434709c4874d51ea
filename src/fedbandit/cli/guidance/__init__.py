"""Commands about this program: what it can do, completion by the shell, what is wrong here."""
