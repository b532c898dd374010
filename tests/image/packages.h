// Packages as handles of the C interface, for tests that include nothing of the library's inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reprise/reprise.h"

namespace reprise::test {

/// Scores of the image "x" (models.h: classifier of 8 x 8), in "scores".
reprise_package* classifier_package(const std::vector<std::string>& images);
/// The launches of the classifier whose input is a tensor.
uint64_t launches_without_image();
/// y = 1 - x, of [1, 3, height, width].
reprise_package* filter_package(const std::vector<std::string>& images, int64_t width,
                                int64_t height);
/// y = a - b, of [1, 3, height, width].
reprise_package* difference_package(const std::vector<std::string>& images, int64_t width,
                                    int64_t height);
/// Bytes that look random.
std::vector<uint8_t> image_bytes(size_t n);

}  // namespace reprise::test
