"""What operators change: operations step by step and judged by their outcomes, drained queues, states of signatures."""
