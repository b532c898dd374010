#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "apps/common/compare.h"
#include "apps/common/values.h"
#include "apps/reprise/command.h"
#include "apps/reprise/input_plans.h"
#include "apps/reprise/measure.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

struct RunOptions {
  CommonOptions common;
  InputOptions inputs;
  std::string model;
  std::string output_dir;
};

struct Summary {
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  double mean = std::numeric_limits<double>::quiet_NaN();
  int64_t nans = 0, infinities = 0;
};

/// Counts NaN and infinities. The least, the largest and the mean are those of all elements that
/// are not NaN; NaN if there are none.
Summary summarise(const HostTensor& t) {
  Summary s;
  double sum = 0;
  int64_t count = 0;
  for (const double v : to_double(t)) {
    if (std::isnan(v)) {
      ++s.nans;
      continue;
    }
    s.infinities += std::isinf(v);
    s.min = count ? std::min(s.min, v) : v;
    s.max = count ? std::max(s.max, v) : v;
    sum += v;
    ++count;
  }
  if (count) s.mean = sum / static_cast<double>(count);
  return s;
}

std::string signed_number(double v) {
  if (std::isnan(v)) return "nan";
  return (v < 0 ? "-" : "") + format_number(std::abs(v), 6);
}

Result<Json> write_outputs(const RunOptions& o, const Session& session,
                           const std::vector<HostTensor>& outputs, const Output& out) {
  if (!o.output_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(utf8_path(o.output_dir), error);
    if (error) {
      return Status(Code::Io, "cannot create '" + o.output_dir + "': " + error.message());
    }
  }
  Table table({"output", "dtype", "shape", "min", "max", "mean", "nan", "inf"});
  Json list = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const HostTensor& t = outputs[i];
    const std::string& name = session.io().outputs[i].name;
    const Summary s = summarise(t);
    if (!o.output_dir.empty()) {
      RP_TRY(write_value(t, utf8_text(utf8_path(o.output_dir) / std::to_string(i))));
    }
    std::string shape;
    for (const int64_t d : t.dims()) shape += (shape.empty() ? "" : "x") + std::to_string(d);
    if (is_container(t.dtype())) shape = std::to_string(t.items().size()) + " items";
    table.add({name, std::string(name_of(t.dtype())), shape.empty() ? "scalar" : shape,
               signed_number(s.min), signed_number(s.max), signed_number(s.mean),
               std::to_string(s.nans), std::to_string(s.infinities)});
    list.push_back({{"name", name},
                    {"dtype", name_of(t.dtype())},
                    {"shape", t.dims()},
                    {"min", number(s.min)},
                    {"max", number(s.max)},
                    {"mean", number(s.mean)},
                    {"nan_count", s.nans},
                    {"inf_count", s.infinities}});
    if (is_container(t.dtype())) list.back()["items"] = t.items().size();
  }
  out.table(table);
  return list;
}

/// Runs once. A device tells only which kernel found an index outside its dimension. The host tells
/// which index it was, so it runs the model again.
Result<std::vector<HostTensor>> run_loaded(const InputPlans::Loaded& loaded, const InputSet& inputs,
                                           RunStats& stats) {
  auto outputs = run_session(*loaded.session, inputs, &stats);
  if (outputs.ok() || outputs.status().code() != Code::InvalidInput || !loaded.session->device())
    return outputs;
  const auto again = reference_outputs(loaded.model, inputs, loaded.options);
  if (again.ok() || again.status().code() != Code::InvalidInput ||
      again.status().message() == outputs.status().message())
    return outputs;
  return invalid_input(outputs.status().message() + "; on the host: " + again.status().message());
}

Status run_model(const RunOptions& o) {
  const Output out(o.common.json);
  RP_ASSIGN(OpenedDevice device, open_selected(o.common, {o.model}));
  Json document;
  const auto run_once = [&](InputPlans::Loaded& loaded) -> Status {
    RP_ASSIGN(InputSet inputs, collect_inputs(loaded.model, o.common, o.inputs, false));
    RunStats stats;
    RP_ASSIGN(std::vector<HostTensor> outputs, run_loaded(loaded, inputs, stats));
    RP_ASSIGN(Json list, write_outputs(o, *loaded.session, outputs, out));
    const SessionStats totals = loaded.session->stats();
    document = {{"model", o.model},
                {"device", device.info.id},
                {"mode", o.common.mode},
                {"variant", loaded.session->variant()},
                {"outputs", std::move(list)},
                {"total_ms", stats.total_us / 1000},
                {"compiles", totals.compiles + (loaded.model.compiled ? 1 : 0)},
                {"recordings", totals.recordings},
                {"submits", totals.submits}};
    return {};
  };
  InputPlans plans(o.model, o.common, device);
  RP_TRY(plans.run(given_inputs(o.model, o.common, o.inputs, false), run_once));
  return out.json(document);
}

}  // namespace

void register_run(CLI::App& root, int& status) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* command = root.add_subcommand("run", "Run a model once and summarise its outputs");
  command->add_option("MODEL", o->model, "An .onnx or a compiled .rpk")->required();
  command->add_option("--output-dir", o->output_dir, "Write outputs here as 0.npy, 1.npy, ...")
      ->check(no_stream());
  add_inputs(*command, o->inputs);
  add_common(*command, o->common);
  command->footer(
      "Inputs that are not given are random; --seed chooses them.\n"
      "Examples:\n"
      "  reprise run bert.onnx --input ids=ids.npy --input mask=mask.pb --output-dir out\n"
      "  reprise run bert.rpk --shape ids=2x32 --device vulkan:1");
  command->callback([o, &status] {
    const Status s = run_model(*o);
    status = s.ok() ? kDone : report(s);
  });
}

}  // namespace reprise::app
