// reprise-filetype: names the types of files with Magika's model, as an application would that
// ships the runtime and a compiled package.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/common/devices.h"
#include "apps/common/npy.h"
#include "apps/common/status.h"
#include "apps/filetype/features.h"
#include "runtime/session.h"

namespace reprise::filetype {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model, config, types;
  std::string device = "auto";
  std::string json;
  std::string save_features;
  Mode mode = Mode::HighConfidence;
  size_t batch = 32;
  bool validation = false;
  std::vector<std::string> paths;
};

struct Row {
  std::string path;
  Prediction prediction;
  std::string error;  // in place of a prediction
};

/// Files in the order given; folders are entered, their files sorted.
std::vector<std::string> list_files(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      out.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error);
    for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      if (it->is_regular_file(error)) found.push_back(it->path());
    }
    std::sort(found.begin(), found.end());
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

Status check_model(const Session& session, const Config& config) {
  const plan::Interface& io = session.io();
  const auto features = static_cast<int64_t>(config.beg_size + config.end_size);
  const bool fits =
      io.inputs.size() == 1 && io.outputs.size() == 1 && io.inputs[0].dtype == DType::I32 &&
      io.inputs[0].shape.size() == 2 &&
      (!io.inputs[0].shape[1].is_const() || io.inputs[0].shape[1].is_const(features)) &&
      io.outputs[0].dtype == DType::F32;
  if (fits) return {};
  return invalid_model("the model is not of this configuration: expected one input int32[batch, " +
                       std::to_string(features) + "] and one float32 output");
}

HostTensor to_tensor(const Config& config, const std::vector<std::vector<int32_t>>& features) {
  const size_t width = config.beg_size + config.end_size;
  HostTensor t(DType::I32, {static_cast<int64_t>(features.size()), static_cast<int64_t>(width)});
  for (size_t i = 0; i < features.size(); ++i) {
    std::copy(features[i].begin(), features[i].end(), t.mutable_data<int32_t>() + i * width);
  }
  return t;
}

/// Runs the model on some files' features and fills their rows.
Status predict(Session& session, const Config& config, Mode mode,
               const std::vector<std::vector<int32_t>>& features, const std::vector<Row*>& rows) {
  const auto batch = static_cast<int64_t>(features.size());
  const HostTensor input = to_tensor(config, features);
  Binding binding;
  binding.name = session.io().inputs[0].name;
  binding.host = &input;
  RP_ASSIGN(std::vector<HostTensor> outputs, session.run(std::span(&binding, 1)));
  const auto labels = static_cast<int64_t>(config.labels.size());
  if (outputs[0].dims() != std::vector<int64_t>{batch, labels}) {
    return invalid_model("the model's output is " + describe(DType::F32, outputs[0].dims()) +
                         ", expected " + describe(DType::F32, std::vector<int64_t>{batch, labels}));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* scores = outputs[0].data<float>() + static_cast<int64_t>(i) * labels;
    rows[i]->prediction = decide({scores, config.labels.size()}, config, mode);
  }
  return {};
}

Status identify(Session& session, const Config& config, const Options& o, std::vector<Row>& rows) {
  std::vector<std::vector<int32_t>> features;
  std::vector<Row*> pending;
  bool saved = false;
  const auto flush = [&]() -> Status {
    if (pending.empty()) return {};
    if (!o.save_features.empty() && !saved) {
      RP_TRY(app::write_npy(to_tensor(config, features), o.save_features));
      saved = true;
    }
    RP_TRY(predict(session, config, o.mode, features, pending));
    features.clear();
    pending.clear();
    return {};
  };
  for (Row& row : rows) {
    Result<FileBlocks> file = read_blocks(row.path, config.block_size);
    if (!file.ok()) {
      row.error = file.status().message();
      continue;
    }
    Extracted e = extract(*file, config);
    if (e.settled) {
      row.prediction = *e.settled;
      continue;
    }
    features.push_back(std::move(e.features));
    pending.push_back(&row);
    if (pending.size() == o.batch) RP_TRY(flush());
  }
  return flush();
}

void print_text(const std::vector<Row>& rows) {
  size_t width = 4;
  for (const Row& row : rows) width = std::max(width, row.path.size());
  std::printf("%-*s  %-16s  %s\n", static_cast<int>(width), "file", "type", "confidence");
  for (const Row& row : rows) {
    if (!row.error.empty()) continue;
    std::printf("%-*s  %-16s  %.1f%%\n", static_cast<int>(width), row.path.c_str(),
                row.prediction.label.c_str(), 100 * row.prediction.score);
  }
}

Status print_json(const std::vector<Row>& rows, const std::string& device,
                  const std::string& path) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json entry{{"file", row.path}};
    if (row.error.empty()) {
      entry["type"] = row.prediction.label;
      entry["score"] = row.prediction.score;
    } else {
      entry["error"] = row.error;
    }
    list.push_back(std::move(entry));
  }
  const nlohmann::ordered_json document{{"device", device}, {"files", std::move(list)}};
  const std::string text =
      document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  FILE* out = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (!out) return app::file_error("cannot write", path);
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const bool closed = out == stdout ? std::fflush(out) == 0 : std::fclose(out) == 0;
  return written && closed ? Status() : app::file_error("cannot write", path);
}

Result<int> run(Options& o) {
  const fs::path folder = fs::path(o.model).parent_path();
  if (o.config.empty()) o.config = folder / "config.min.json";
  if (o.types.empty()) o.types = folder / "content_types_kb.min.json";
  RP_ASSIGN(const Config config, read_config(o.config, o.types));
  RP_ASSIGN(std::shared_ptr<const package::Package> package, package::read(o.model));
  int complaints = 0;
  BackendOptions backend = app::default_backend_options();
  backend.validation = o.validation;
  backend.log = [&complaints, &o](const std::string& message) {
    if (!o.validation) return;
    ++complaints;
    std::fprintf(stderr, "device: %s\n", message.c_str());
  };
  RP_ASSIGN(OpenedDevice device,
            app::open_named_device(o.device, backend, app::refusal_of(package)));
  RP_ASSIGN(std::unique_ptr<Session> session, Session::create(package, device.device));
  RP_TRY(check_model(*session, config));
  std::vector<Row> rows;
  for (std::string& path : list_files(o.paths)) rows.push_back({std::move(path), {}, {}});
  RP_TRY(identify(*session, config, o, rows));
  if (o.json != "-") print_text(rows);
  if (!o.json.empty()) RP_TRY(print_json(rows, device.info.id, o.json));
  int status = complaints ? app::kFailed : app::kDone;
  for (const Row& row : rows) {
    if (!row.error.empty()) status = app::report({Code::Io, row.error});
  }
  return status;
}

int parse_and_run(int argc, char** argv) {
  Options o;
  CLI::App app{"Names the types of files with Magika's model, on a GPU."};
  app.name("reprise-filetype");
  app.add_option("--model", o.model, "The model as compiled by: reprise compile model.onnx -o ...")
      ->required();
  app.add_option("--config", o.config, "Its config.min.json (default: beside the model)");
  app.add_option("--types", o.types, "Its content_types_kb.min.json (default: beside the model)");
  app.add_option("--device", o.device, "auto, host, vulkan[:N] or cuda[:N]")->capture_default_str();
  app.add_option("--json", o.json, "Write results as JSON to a file; - for standard output");
  app.add_option("--mode", o.mode, "What a type must reach: high-confidence (default), ...")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Mode>{{"high-confidence", Mode::HighConfidence},
                                      {"medium-confidence", Mode::MediumConfidence},
                                      {"best-guess", Mode::BestGuess}}));
  app.add_option("--batch", o.batch, "Files per run of the model")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option(
      "--save-features", o.save_features,
      "Write what the model reads of the first batch as .npy: an input for reprise bench");
  app.add_flag("--validation", o.validation, "Turn on the Vulkan validation layers");
  app.add_option("FILE", o.paths, "Files, or folders to search")->required();
  app.footer(
      "Files below the model's confidence are shown as txt or unknown.\n"
      "Example: reprise-filetype --model magika.rpk ~/Downloads");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? app::kDone : app::kUsage;
  }
  Result<int> status = run(o);
  return status.ok() ? *status : app::report(status.status());
}

}  // namespace
}  // namespace reprise::filetype

int main(int argc, char** argv) {
  return reprise::app::guarded_main(reprise::filetype::parse_and_run, argc, argv);
}
