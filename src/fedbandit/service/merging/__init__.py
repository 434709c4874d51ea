"""From the bytes of a sync to a durable answer: checks, batches, the process that merges."""
