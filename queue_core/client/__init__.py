"""What a program calls: tasks, enqueue, results, operations, schedules. It knows no store."""
