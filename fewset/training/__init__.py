"""Training: a resumable loop, the stages it runs, optimiser and schedule, the run directory."""
