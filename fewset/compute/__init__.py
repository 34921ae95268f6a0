"""The machine: devices, processes, tuning."""
