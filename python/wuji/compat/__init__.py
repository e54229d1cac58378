"""Ways for programs that were written for others to run here: `taichi`."""
