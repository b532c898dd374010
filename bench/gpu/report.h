// Results as a table for people and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/gpu/measure.h"

namespace reprise::bench::gpu {

using Json = nlohmann::ordered_json;

/// "fp32", "fp16", "bf16"
std::string dtype_name(DType dtype);
/// TFLOP/s or GB/s at a time; -1 where the case has neither or there is no time.
double rate_of(const Case& c, double ms);

Json case_json(const Case& c, const std::vector<Measured>& rows);
void print_heading();
void print_case(const Case& c, const std::vector<Measured>& rows);
/// Whole or not at all: what was there stays until the new file is complete.
Status write_atomically(const Json& document, const std::string& path);

}  // namespace reprise::bench::gpu
