"""What every room needs: errors, files, devices, processes, progress, names."""
