"""What bench/peers is made of: environments, conversions, workers, measuring, reports."""
