// A picture of a training run.
#pragma once

#include <string>
#include <vector>

#include "reprise/reprise.hpp"

namespace finetune {

/// Writes an SVG file with the loss of each step. Losses that are no numbers are gaps.
reprise::Error write_plot(const std::vector<float>& losses, const std::string& path);

}  // namespace finetune
