// Trains a package of reprise.torch.TrainStep.export() further, without Python.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "apps/finetune/npy.h"
#include "apps/finetune/plot.h"
#include "apps/samples/command_line.h"
#include "apps/samples/device.h"
#include "apps/samples/outcome.h"
#include "reprise/reprise.hpp"

namespace {

using samples::failed;
using samples::kDone;
using samples::report;

struct Options {
  std::string package, data, targets, device = "auto", load, save, plot;
  int steps = 100;
  float lr = 1e-3F;
};

reprise::Error invalid(const std::string& message) {
  return {REPRISE_INVALID_INPUT, message};
}

/// CLI::NonNegativeNumber admits NaN. Text that is no number is refused when it is converted.
std::string not_negative(const std::string& text) {
  if (std::strtof(text.c_str(), nullptr) >= 0) return "";
  return "'" + text + "' is no number of 0 or more";
}

void declare(CLI::App& app, Options& o) {
  app.add_option("package", o.package, "Training step that TrainStep.export() saved")->required();
  app.add_option("data", o.data, "Examples, as a .npy file whose first dim counts them")
      ->required();
  app.add_option("targets", o.targets, "One target for each example, likewise")->required();
  app.add_option("--steps", o.steps, "Number of training steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--lr", o.lr, "Learning rate")
      ->check(CLI::Validator(not_negative, "NONNEGATIVE"))
      ->capture_default_str();
  app.add_option("--device", o.device, "host, vulkan:0, cuda:0, ...; auto takes the best")
      ->capture_default_str();
  app.add_option("--load", o.load, "File of states to begin with, instead of the package's");
  app.add_option("--save", o.save, "File that receives the states at the end");
  app.add_option("--plot", o.plot, "SVG file that receives a plot of the losses");
  app.footer(
      "Example:\n"
      "  reprise-finetune train.rpk x.npy y.npy --steps 200 --lr 0.01 --save states.rpk\n"
      "Batches are consecutive rows of the files, from the beginning again after the last.");
}

/// An input that takes a batch of rows of a file.
struct Feed {
  reprise_tensor tensor = REPRISE_TENSOR_INIT;
  finetune::Array array;
  std::vector<char> batch;

  /// Takes the rows of step `step`, from the beginning again after the last.
  void fill(int step) {
    const auto rows = static_cast<size_t>(tensor.dims[0]);
    const auto all = static_cast<size_t>(array.rows());
    for (size_t r = 0; r < rows; ++r) {
      const size_t from = (static_cast<size_t>(step) * rows + r) % all;
      std::memcpy(batch.data() + r * array.row_bytes, array.bytes.data() + from * array.row_bytes,
                  array.row_bytes);
    }
    tensor.data = batch.data();
    tensor.bytes = batch.size();
  }
};

std::string dims_text(const int64_t* dims, size_t rank) {
  std::string s;
  for (size_t a = 0; a < rank; ++a) s += (a ? ", " : "") + std::to_string(dims[a]);
  return "[" + s + "]";
}

/// Reads the file for an input of the package.
reprise::Error make_feed(const reprise_slot& slot, const std::string& path, Feed& feed) {
  const std::string wrong = read_npy(path, feed.array);
  if (!wrong.empty()) return invalid(wrong);
  bool fits = slot.rank == feed.array.dims.size() && feed.array.rows() > 0 &&
              slot.dtype == (feed.array.is_float ? REPRISE_F32 : REPRISE_I64);
  for (uint32_t a = 0; fits && a < slot.rank; ++a)
    fits = slot.dims[a] >= 0 && (a == 0 || slot.dims[a] == feed.array.dims[a]);
  if (!fits) {
    const std::string expected = slot.dtype == REPRISE_F32   ? "float32"
                                 : slot.dtype == REPRISE_I64 ? "int64"
                                                             : "a dtype that no file here can have";
    return invalid(path + " is " + (feed.array.is_float ? "float32" : "int64") +
                   dims_text(feed.array.dims.data(), feed.array.dims.size()) + ", but the input '" +
                   slot.name + "' takes batches of " + expected + dims_text(slot.dims, slot.rank) +
                   "; all dims but the first must agree, and no example is too few");
  }
  feed.tensor.name = slot.name;
  feed.tensor.dtype = slot.dtype;
  feed.tensor.rank = slot.rank;
  std::memcpy(feed.tensor.dims, slot.dims, sizeof slot.dims);
  feed.batch.resize(feed.array.row_bytes * static_cast<size_t>(slot.dims[0]));
  return {};
}

/// Finds the inputs: "target", learning rates ("lr..."), and one more, the data.
reprise::Error make_inputs(const reprise::Session& session, const Options& o,
                           std::vector<Feed>& feeds, std::vector<reprise_tensor>& rates) {
  for (size_t i = 0; i < reprise_session_input_count(session.get()); ++i) {
    reprise_slot slot = REPRISE_SLOT_INIT;
    reprise_error e{};
    if (reprise_session_input(session.get(), i, &slot, &e) != REPRISE_OK)
      return {e.status, e.message};
    if (std::strcmp(slot.name, "lr") == 0 || std::strncmp(slot.name, "lr.", 3) == 0) {
      reprise_tensor t = REPRISE_TENSOR_INIT;
      t.name = slot.name;
      t.data = const_cast<float*>(&o.lr);  // an input is only read
      t.bytes = sizeof o.lr;
      rates.push_back(t);
      continue;
    }
    const bool target = std::strcmp(slot.name, "target") == 0;
    reprise::Error wrong = make_feed(slot, target ? o.targets : o.data, feeds.emplace_back());
    if (failed(wrong)) return wrong;
  }
  if (feeds.size() == 2) return {};
  return invalid(
      "the package must have two inputs besides the learning rate: 'target', and one for "
      "the data; this one has " +
      std::to_string(feeds.size()));
}

/// Takes the steps, and prints the loss of each tenth.
reprise::Error train(reprise::Session& session, const Options& o, std::vector<float>& losses) {
  std::vector<Feed> feeds;
  std::vector<reprise_tensor> rates;
  reprise::Error wrong = make_inputs(session, o, feeds, rates);
  if (failed(wrong)) return wrong;
  float loss = 0;
  reprise_tensor output = REPRISE_TENSOR_INIT;
  output.name = "loss";
  output.data = &loss;
  output.bytes = sizeof loss;
  for (int step = 0; step < o.steps; ++step) {
    std::vector<reprise_tensor> inputs = rates;
    for (Feed& feed : feeds) {
      feed.fill(step);
      inputs.push_back(feed.tensor);
    }
    reprise_error e{};
    if (reprise_session_run(session.get(), inputs.data(), inputs.size(), &output, 1, nullptr,
                            nullptr, &e) != REPRISE_OK)
      return {e.status, e.message};
    losses.push_back(loss);
    if (step % 10 == 0 || step + 1 == o.steps) {
      std::printf("step %d loss %.6f\n", step, static_cast<double>(loss));
      std::fflush(stdout);
    }
  }
  return {};
}

int run(const Options& o) {
  const auto package = reprise::Package::open(o.package);
  if (!package) return report(package.error());
  samples::Validation validation;
  const auto device = samples::open_device(o.device, *package, validation);
  if (!device) return report(device.error());
  auto session = reprise::Session::create(*package, *device);
  if (!session) return report(session.error());
  if (!o.load.empty()) {
    const reprise::Error e = session->load_states(o.load);
    if (failed(e)) return report(e);
  }
  std::printf("%zu states on %s\n", session->states().size(), device->info().id);
  std::vector<float> losses;
  reprise::Error e = train(*session, o, losses);
  if (!failed(e) && !o.save.empty()) e = session->save_states(o.save);
  if (!failed(e) && !o.plot.empty()) e = finetune::write_plot(losses, o.plot);
  if (failed(e)) return report(e);
  if (!o.save.empty()) std::printf("%s: the states\n", o.save.c_str());
  if (!o.plot.empty()) std::printf("%s: the losses\n", o.plot.c_str());
  return kDone;
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a package of reprise.torch.TrainStep.export() further, without Python.",
               "reprise-finetune");
  declare(app, options);
  return samples::run_command(app, argc, argv, [&] { return run(options); });
}

}  // namespace

int main(int argc, char** argv) {
  return samples::exit_status_of([&] { return parse_and_run(argc, argv); });
}
