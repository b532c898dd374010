#include "apps/reprise/command.h"

namespace reprise::app {

namespace {

/// What matrix units multiply: "16x16x16 in fp16 with fp32 sums".
Json matrices_json(const std::vector<MmaConfig>& matrices) {
  Json out = Json::array();
  for (const MmaConfig& m : matrices) out.push_back(m.str());
  return out;
}

Json facts_json(const DeviceFacts& f) {
  return {{"int64", f.int64},
          {"float16", f.float16},
          {"exact_halves", f.exact_halves},
          {"float64", f.float64},
          {"storage8", f.storage8},
          {"storage16", f.storage16},
          {"buffer_address", f.buffer_address},
          {"subgroup_arithmetic", f.subgroup_arithmetic},
          {"subgroup_shuffle", f.subgroup_shuffle},
          {"subgroup_extended_types", f.subgroup_extended_types},
          {"cooperative_matrix", !f.matrices.empty()},
          {"matrices", matrices_json(f.matrices)},
          {"flexible_matrices", matrices_json(f.flexible_matrices)},
          {"slow_loads", f.driver.slow_loads},
          {"max_loop_iterations", f.driver.max_loop_iterations},
          {"subgroup_size", f.subgroup_size},
          {"least_subgroup_size", f.least_subgroup_size},
          {"largest_subgroup_size", f.largest_subgroup_size},
          {"max_workgroup_invocations", f.max_workgroup_invocations},
          {"max_shared_bytes", f.max_shared_bytes},
          {"max_grid", {f.max_grid[0], f.max_grid[1], f.max_grid[2]}},
          {"max_buffer_bytes", f.max_buffer_bytes},
          {"max_push_constant_bytes", f.max_push_constant_bytes},
          {"max_storage_buffers", f.max_storage_buffers}};
}

std::string facts_text(const DeviceFacts& f) {
  std::string out = "subgroup " + std::to_string(f.subgroup_size) + ", workgroup " +
                    std::to_string(f.max_workgroup_invocations) + ", shared " +
                    format_bytes(f.max_shared_bytes) + ", buffer " +
                    format_bytes(static_cast<int64_t>(f.max_buffer_bytes));
  const std::pair<bool, const char*> features[] = {
      {f.int64, "int64"},         {f.float16, "float16"},
      {f.float64, "float64"},     {f.storage8, "storage8"},
      {f.storage16, "storage16"}, {!f.matrices.empty(), "cooperative matrix"}};
  for (const auto& [has, name] : features) {
    if (has) out += std::string(", ") + name;
  }
  if (f.api != Api::Vulkan) return out;
  return out + "\n    " +
         (f.buffer_address ? "buffer addresses"
                           : "descriptors, up to " + std::to_string(f.max_storage_buffers) +
                                 " storage buffers in a kernel (target vulkan-descriptors)");
}

int run_devices(const CommonOptions& options) {
  const Output out(options.json);
  const Result<HiddenFeatures> hidden = parse_hidden(options.without);
  if (!hidden.ok()) return report(hidden.status());
  const std::vector<DeviceInfo> devices = list_devices(*hidden);
  Json list = Json::array();
  for (const DeviceInfo& d : devices) {
    list.push_back({{"id", d.id},
                    {"name", d.name},
                    {"kind", d.kind},
                    {"driver", d.driver},
                    {"api", d.api},
                    {"usable", d.usable},
                    {"reason", d.reason},
                    {"facts", facts_json(d.facts)}});
    out.text(d.id + "  " + d.name + "\n    " + d.kind + (d.api.empty() ? "" : ", " + d.api) +
             (d.driver.empty() ? "" : ", " + d.driver) + "\n");
    if (!d.usable) {
      out.text("    not usable: " + d.reason + "\n");
    } else if (d.facts.api != Api::Host) {
      out.text("    " + facts_text(d.facts) + "\n");
    }
  }
  if (Status s = out.json(list); !s.ok()) return report(s);
  return kDone;
}

}  // namespace

void register_devices(CLI::App& root, int& status) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* command = root.add_subcommand("devices", "List devices, and why one cannot be used");
  add_common(*command, *options, kJson);
  add_without(*command, *options);
  command->footer("Example: reprise devices --json -");
  command->callback([options, &status] { status = run_devices(*options); });
}

}  // namespace reprise::app
