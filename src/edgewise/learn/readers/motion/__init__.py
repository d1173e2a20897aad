"""Bodies in motion: trajectories, systems, their simulation."""
