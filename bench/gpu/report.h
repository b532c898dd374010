// Prints results as a table for people and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/gpu/measure.h"

namespace reprise::bench::gpu {

using Json = nlohmann::ordered_json;

/// "fp32", "fp16", "bf16"
std::string dtype_name(DType dtype);
/// TFLOP/s or GB/s for a run of `ms`; -1 if the case has neither or `ms` is not known.
double rate_of(const Case& c, double ms);

Json case_json(const Case& c, const std::vector<Measured>& rows);
void print_heading();
void print_case(const Case& c, const std::vector<Measured>& rows);
/// Writes the file completely or not at all: an old file stays until the new one is complete.
Status write_atomically(const Json& document, const std::string& path);

}  // namespace reprise::bench::gpu
