"""The parts of bench/peers: environments, conversions, workers, measurement, reports."""
