#include "bench/gpu/report.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/common/status.h"

namespace reprise::bench::gpu {
namespace {

/// Sets a number unless it was not measured (negative).
void set(Json& row, const char* key, double v) {
  if (v >= 0) row[key] = std::isfinite(v) ? Json(v) : Json("inf");
}

std::string number(double v) {
  if (v < 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, v < 1e-2 && v > 0 ? "%.2e" : "%.4g", v);
  return text;
}

const char* unit_of(const Case& c) {
  if (c.flops > 0) return "TFLOP/s";
  if (c.bytes > 0) return "GB/s";
  return c.operations > 0 ? "G/s" : "";
}

}  // namespace

std::string dtype_name(DType dtype) {
  return precision_name(dtype);
}

double rate_of(const Case& c, double ms) {
  if (ms <= 0) return -1;
  if (c.flops > 0) return c.flops / ms / 1e9;
  if (c.bytes > 0) return c.bytes / ms / 1e6;
  return c.operations > 0 ? c.operations / ms / 1e6 : -1;
}

Json case_json(const Case& c, const std::vector<Measured>& rows) {
  Json list = Json::array();
  for (const Measured& m : rows) {
    Json row{{"name", m.name}, {"status", m.status}};
    if (!m.reason.empty()) row["reason"] = m.reason;
    set(row, "wall_ms", m.wall_ms);
    set(row, "best_ms", m.best_ms);
    set(row, "device_ms", m.device_ms);
    set(row, "submit_us", m.submit_us);
    set(row, "rate", rate_of(c, m.wall_ms));
    set(row, "device_rate", rate_of(c, m.device_ms));
    set(row, "error", m.error);
    if (m.launches >= 0) row["launches"] = m.launches;
    if (m.runs > 0) row["runs"] = m.runs;
    list.push_back(std::move(row));
  }
  Json out{{"case", c.name}, {"group", c.group}, {"dtype", dtype_name(c.dtype)}};
  out["unit"] = unit_of(c);
  if (c.flops > 0) out["flops"] = c.flops;
  if (c.bytes > 0) out["bytes"] = c.bytes;
  if (c.operations > 0) out["operations"] = c.operations;
  if (!c.skip.empty()) out["skipped"] = c.skip;
  out["contenders"] = std::move(list);
  return out;
}

void print_heading() {
  std::printf("%-28s %-5s %-22s %10s %10s %10s %10s %8s %9s\n", "case", "dtype", "who", "wall ms",
              "device ms", "rate", "on device", "", "error");
}

void print_case(const Case& c, const std::vector<Measured>& rows) {
  const std::string dtype = dtype_name(c.dtype);
  if (!c.skip.empty())
    std::printf("%-28s %-5s skipped: %s\n", c.name.c_str(), dtype.c_str(), c.skip.c_str());
  for (const Measured& m : rows) {
    std::printf("%-28s %-5s %-22s %10s %10s %10s %10s %8s %9s\n", c.name.c_str(), dtype.c_str(),
                m.name.c_str(), number(m.wall_ms).c_str(), number(m.device_ms).c_str(),
                number(rate_of(c, m.wall_ms)).c_str(), number(rate_of(c, m.device_ms)).c_str(),
                unit_of(c), number(m.error).c_str());
    if (m.status != "ok") std::printf("    %s: %s\n", m.status.c_str(), m.reason.c_str());
  }
  std::fflush(stdout);
}

Status write_atomically(const Json& document, const std::string& path) {
  const std::string draft = path + "." + std::to_string(getpid());
  std::ofstream out(draft, std::ios::binary);
  out << document.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  out.close();
  if (!out) return app::file_error("cannot write", draft);
  std::error_code failed;
  std::filesystem::rename(draft, path, failed);
  if (failed) return {Code::Io, "cannot write '" + path + "': " + failed.message()};
  return {};
}

}  // namespace reprise::bench::gpu
