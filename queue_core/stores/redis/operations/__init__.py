"""Operations in Redis: members, steps, and moves of jobs between queues."""
