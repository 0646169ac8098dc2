"""How operations go on: written, carried out step by step, judged by their outcomes; queues that are drained."""
