"""tools/gpu-check: tests and benches of a machine with an NVIDIA GPU."""
