"""What an agent has decided and learned, and the journal that it is restored from."""
