// The model against kernels that were measured on an H200 on 2026-11-26, as the compiler of that
// day made them. No number of the model is a row's own, and none was chosen by these rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "codegen/device_model/model.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

using device_model::Device;
using device_model::KernelFacts;
using Json = nlohmann::json;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::filesystem::path record() {
  return binary_dir() / "tests" / "device_model" / "h200-2026-11-26" / "cases";
}

Json recorded_rows() {
  return Json::parse(text_of(record() / "rows.json"), nullptr, false);
}

const Device& h200() {
  return **device_model::find_device("h200");
}

std::vector<std::byte> block_of(size_t buffers) {
  std::vector<std::byte> block(16 + 8 * buffers);
  for (uint64_t n = 0; n < buffers; ++n) {
    const uint64_t address = (n + 1) << 36;
    std::memcpy(&block[16 + 8 * n], &address, sizeof address);
  }
  return block;
}

Result<double> predicted(const Json& row, bool with_sass) {
  RP_ASSIGN(const device_model::Program program,
            device_model::parse_ptx(text_of(record() / row["ptx"].get<std::string>())));
  const auto sizes = [&](const char* key) { return row[key].get<std::array<uint32_t, 3>>(); };
  const std::vector<std::byte> block = block_of(row["buffers"]);
  KernelFacts k;
  for (const uint32_t n : sizes("grid")) k.groups *= n;
  RP_ASSIGN(k.work, device_model::walk(program, {sizes("grid"), sizes("workgroup"), block},
                                       h200().latencies));
  k.resident = row["resident"];
  k.bytes = row["bytes"];
  if (with_sass) k.instruction_ratio = row["sass"].get<double>() / device_model::slots_of(program);
  return device_model::predict(k, h200()).total;
}

/// The place of each number among all.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t n) { return values[n]; });
  std::vector<double> out(values.size());
  for (size_t n = 0; n < order.size(); ++n) out[order[n]] = static_cast<double>(n);
  return out;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks(a), y = ranks(b);
  const auto n = static_cast<double>(a.size());
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
  return 1 - 6 * squares / (n * (n * n - 1));
}

/// Expects that 80% of the rows are within 0.7 to 1.4 of what was measured.
void expect_near_the_record(bool with_sass) {
  const Json rows = recorded_rows();
  ASSERT_GE(rows.size(), 10U);
  std::vector<double> measured, model;
  size_t near = 0;
  std::ostringstream list;
  for (const Json& row : rows) {
    const Result<double> ms = predicted(row, with_sass);
    ASSERT_TRUE(ms.ok()) << row << ": " << ms.status().message();
    measured.push_back(row["measured_ms"]);
    model.push_back(*ms);
    const double ratio = model.back() / measured.back();
    near += ratio >= 0.7 && ratio <= 1.4 ? 1 : 0;
    list << row["case"] << " " << row["dtype"] << " " << row["file"] << ": " << ratio << "\n";
  }
  const double share = static_cast<double>(near) / static_cast<double>(rows.size());
  EXPECT_GE(share, 0.8) << list.str();
  EXPECT_GE(spearman(measured, model), 0.9) << list.str();
}

TEST(DeviceModelRecord, MostKernelsAreNearWhatWasMeasured) {
  expect_near_the_record(true);
}

TEST(DeviceModelRecord, AlsoWithoutADisassembler) {
  expect_near_the_record(false);
}

/// The times are those of the files.
TEST(DeviceModelRecord, IsThatOfTheFiles) {
  for (const Json& row : recorded_rows()) {
    const std::filesystem::path file =
        source_dir() / "bench" / "results" / (row["file"].get<std::string>() + ".json");
    const Json document = Json::parse(text_of(file), nullptr, false);
    EXPECT_EQ(row["commit"], document["facts"]["commit"].get<std::string>().substr(0, 8));
    size_t found = 0;
    for (const Json& c : document["bench"]["cases"]) {
      if (c["case"] != row["case"] || c["dtype"] != row["dtype"]) continue;
      for (const Json& e : c["contenders"]) {
        if (e["name"] != "reprise cuda" || e["launches"] != 1) continue;
        EXPECT_EQ(row["measured_ms"], e["device_ms"]) << row;
        ++found;
      }
    }
    EXPECT_EQ(found, 1U) << row;
  }
}

/// A model that ignores a term, or is off by a factor, would not pass.
TEST(DeviceModelRecord, TheMeasureCanFail) {
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3}, {10, 20, 30}), 1);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3}, {30, 20, 10}), -1);
  EXPECT_LT(spearman({1, 2, 3, 4}, {2, 1, 4, 3}), 0.9);
}

}  // namespace
}  // namespace reprise::test
