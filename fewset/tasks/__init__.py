"""What a task is: how it is drawn, and how scores over tasks are compared."""
