"""Training: a resumable loop, the stages that it runs, optimiser and schedule, checkpoints."""
