"""The parts of serve.py."""
