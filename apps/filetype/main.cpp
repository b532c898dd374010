// reprise-filetype: determines the types of files with Magika's model. It is a sample of an
// application that ships the runtime and a compiled package.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/filetype/features.h"
#include "apps/filetype/plot.h"
#include "apps/samples/command_line.h"
#include "apps/samples/device.h"
#include "apps/samples/outcome.h"
#include "apps/samples/path.h"

namespace filetype {
namespace {

namespace fs = std::filesystem;

using reprise::Device;
using reprise::Output;
using reprise::Package;
using reprise::Session;
using samples::failed;
using samples::kDone;
using samples::kFailed;
using samples::report;
using samples::utf8_path;
using samples::utf8_text;

struct Options {
  std::string model, config, types;
  std::string device = "auto";
  std::string json, plot;
  std::string save_features;
  Mode mode = Mode::HighConfidence;
  size_t batch = 32;
  samples::Validation validation;
  std::vector<std::string> paths;
};

struct Row {
  std::string path;
  Prediction prediction;
  std::string error;  // if not empty, there is no prediction
};

/// The files in the given order. A folder is replaced by its files, sorted.
std::vector<std::string> list_files(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(utf8_path(path), error)) {
      out.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    fs::recursive_directory_iterator it(utf8_path(path),
                                        fs::directory_options::skip_permission_denied, error);
    for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      if (it->is_regular_file(error)) found.push_back(utf8_text(it->path()));
    }
    std::sort(found.begin(), found.end());
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

/// The model, with the names of its tensors.
class Model {
 public:
  Model(Session session, const Config& config) : session_(std::move(session)), config_(config) {}

  /// Checks that the model fits the configuration.
  Error check() {
    const auto features = static_cast<int64_t>(config_.beg_size + config_.end_size);
    reprise_slot input = REPRISE_SLOT_INIT, output = REPRISE_SLOT_INIT;
    const bool fits = reprise_session_input_count(session_.get()) == 1 &&
                      reprise_session_output_count(session_.get()) == 1 &&
                      reprise_session_input(session_.get(), 0, &input, nullptr) == REPRISE_OK &&
                      reprise_session_output(session_.get(), 0, &output, nullptr) == REPRISE_OK &&
                      input.dtype == REPRISE_I32 && input.rank == 2 &&
                      (input.dims[1] == -1 || input.dims[1] == features) &&
                      output.dtype == REPRISE_F32;
    if (fits) input_ = input.name;
    if (fits) return {};
    return {REPRISE_INVALID_MODEL,
            "the model does not fit the configuration: expected one input int32[batch, " +
                std::to_string(features) + "] and one float32 output"};
  }

  /// Runs the model on the features of some files, one row per file, and stores the predictions.
  Error predict(Mode mode, const std::vector<int32_t>& features, const std::vector<Row*>& rows) {
    const auto batch = static_cast<int64_t>(rows.size());
    const auto width = static_cast<int64_t>(config_.beg_size + config_.end_size);
    const auto outputs = session_.run({{input_.c_str(), features.data(), {batch, width}}});
    if (!outputs) return outputs.error();
    const std::vector<float> scores = (*outputs)[0].as<float>();
    const size_t labels = config_.labels.size();
    const std::vector<int64_t> expected{batch, static_cast<int64_t>(labels)};
    if ((*outputs)[0].dims != expected) {
      return {REPRISE_INVALID_MODEL,
              "the dimensions of the model's output are not the numbers of files and labels"};
    }
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i]->prediction = decide({scores.data() + i * labels, labels}, config_, mode);
    return {};
  }

 private:
  Session session_;
  const Config& config_;
  std::string input_;
};

/// Writes rows of features in numpy's format.
Error write_npy(const std::vector<int32_t>& features, size_t rows, const std::string& path) {
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (" +
                       std::to_string(rows) + ", " + std::to_string(features.size() / rows) +
                       "), }";
  // Ten bytes come before the header, and a newline ends it, at a multiple of 64.
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  const std::string start = std::string("\x93NUMPY\x01\x00", 8) +
                            static_cast<char>(header.size() & 0xFF) +
                            static_cast<char>(header.size() >> 8) + header;
  FILE* out = std::fopen(path.c_str(), "wb");
  if (!out) return file_error("cannot write", path);
  const size_t bytes = features.size() * sizeof(int32_t);
  const bool written = std::fwrite(start.data(), 1, start.size(), out) == start.size() &&
                       std::fwrite(features.data(), 1, bytes, out) == bytes;
  const bool closed = std::fclose(out) == 0;
  return written && closed ? Error() : file_error("cannot write", path);
}

Error identify(Model& model, const Config& config, const Options& o, std::vector<Row>& rows) {
  std::vector<int32_t> features;
  std::vector<Row*> pending;
  bool saved = false;
  const auto flush = [&]() -> Error {
    if (pending.empty()) return {};
    if (!o.save_features.empty() && !saved) {
      Error e = write_npy(features, pending.size(), o.save_features);
      if (failed(e)) return e;
      saved = true;
    }
    Error e = model.predict(o.mode, features, pending);
    features.clear();
    pending.clear();
    return e;
  };
  for (Row& row : rows) {
    Result<FileBlocks> file = read_blocks(row.path, config.block_size);
    if (!file) {
      row.error = file.error().message;
      continue;
    }
    const Extracted e = extract(*file, config);
    if (e.settled) {
      row.prediction = *e.settled;
      continue;
    }
    features.insert(features.end(), e.features.begin(), e.features.end());
    pending.push_back(&row);
    if (pending.size() < o.batch) continue;
    Error error = flush();
    if (failed(error)) return error;
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

Error print_json(const std::vector<Row>& rows, const std::string& device, const std::string& path) {
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
  if (!out) return file_error("cannot write", path);
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const bool closed = out == stdout ? std::fflush(out) == 0 : std::fclose(out) == 0;
  return written && closed ? Error() : file_error("cannot write", path);
}

Error plot_types(const std::vector<Row>& rows, const std::string& path) {
  std::map<std::string, Share> types;
  for (const Row& row : rows) {
    if (!row.error.empty()) continue;
    std::error_code error;
    const uintmax_t bytes = fs::file_size(utf8_path(row.path), error);
    Share& share = types[row.prediction.label];
    share.files += 1;
    share.bytes += error ? 0 : bytes;
  }
  return write_plot(types, path);
}

int run(Options& o) {
  const fs::path folder = utf8_path(o.model).parent_path();
  if (o.config.empty()) o.config = utf8_text(folder / "config.min.json");
  if (o.types.empty()) o.types = utf8_text(folder / "content_types_kb.min.json");
  const Result<Config> config = read_config(o.config, o.types);
  if (!config) return report(config.error());
  const Result<Package> package = Package::open(o.model);
  if (!package) return report(package.error());
  const Result<Device> device = samples::open_device(o.device, *package, o.validation);
  if (!device) return report(device.error());
  Result<Session> session = Session::create(*package, *device);
  if (!session) return report(session.error());
  Model model(std::move(*session), *config);
  Error e = model.check();
  if (failed(e)) return report(e);
  std::vector<Row> rows;
  for (std::string& path : list_files(o.paths)) rows.push_back({std::move(path), {}, {}});
  e = identify(model, *config, o, rows);
  if (failed(e)) return report(e);
  if (o.json != "-") print_text(rows);
  if (!o.json.empty()) e = print_json(rows, device->info().id, o.json);
  if (!failed(e) && !o.plot.empty()) e = plot_types(rows, o.plot);
  if (failed(e)) return report(e);
  int status = o.validation.complaints ? kFailed : kDone;
  for (const Row& row : rows) {
    if (!row.error.empty()) status = report({REPRISE_IO, row.error});
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
  samples::add_device_option(app, o.device);
  app.add_option("--json", o.json, "Write results as JSON to a file; - for standard output");
  app.add_option("--plot", o.plot, "SVG file that receives a bar for each type");
  app.add_option("--mode", o.mode, "Confidence that a type needs: high-confidence (default), ...")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Mode>{{"high-confidence", Mode::HighConfidence},
                                      {"medium-confidence", Mode::MediumConfidence},
                                      {"best-guess", Mode::BestGuess}}));
  app.add_option("--batch", o.batch, "Files per run of the model")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option(
      "--save-features", o.save_features,
      "Write the model's input for the first batch as .npy, as an input for reprise bench");
  samples::add_validation_option(app, o.validation);
  app.add_option("FILE", o.paths, "Files, or folders to search")->required();
  app.footer(
      "Files below the model's confidence are shown as txt or unknown.\n"
      "Example: reprise-filetype --model magika.rpk ~/Downloads");
  return samples::run_command(app, argc, argv, [&] { return run(o); });
}

}  // namespace
}  // namespace filetype

int main(int argc, char** argv) {
  return samples::exit_status_of([&] { return filetype::parse_and_run(argc, argv); });
}
