// Trains a package of reprise.torch.TrainStep.export() further, without Python.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "apps/finetune/npy.h"
#include "reprise/reprise.hpp"

namespace {

struct Options {
  std::string package, data, targets, device = "auto", load, save;
  int steps = 100;
  float lr = 1e-3F;
};

constexpr const char* kUsage =
    "usage: reprise-finetune TRAIN.rpk DATA.npy TARGETS.npy [--steps N] [--lr RATE]\n"
    "                        [--device ID] [--load STATES] [--save STATES]\n";

bool parse(int argc, char** argv, Options& o) {
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      files.push_back(word);
      continue;
    }
    if (++i == argc) return false;
    const std::string value = argv[i];
    if (word == "--steps") {
      o.steps = std::atoi(value.c_str());
    } else if (word == "--lr") {
      o.lr = std::strtof(value.c_str(), nullptr);
    } else if (word == "--device") {
      o.device = value;
    } else if (word == "--load") {
      o.load = value;
    } else if (word == "--save") {
      o.save = value;
    } else {
      return false;
    }
  }
  if (files.size() != 3 || o.steps < 1 || !(o.lr >= 0)) return false;
  o.package = files[0];
  o.data = files[1];
  o.targets = files[2];
  return true;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "reprise-finetune: %s\n", message.c_str());
  return 1;
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

/// Reads the file for an input of the package. Returns what is wrong, or an empty string.
std::string make_feed(const reprise_slot& slot, const std::string& path, Feed& feed) {
  const std::string wrong = read_npy(path, feed.array);
  if (!wrong.empty()) return wrong;
  const std::string name = slot.name;
  bool fits = slot.rank == feed.array.dims.size() && feed.array.rows() > 0 &&
              slot.dtype == (feed.array.is_float ? REPRISE_F32 : REPRISE_I64);
  for (uint32_t a = 0; fits && a < slot.rank; ++a)
    fits = slot.dims[a] >= 0 && (a == 0 || slot.dims[a] == feed.array.dims[a]);
  if (!fits) return path + " does not fit the input '" + name + "' of the package";
  feed.tensor.name = slot.name;
  feed.tensor.dtype = slot.dtype;
  feed.tensor.rank = slot.rank;
  std::memcpy(feed.tensor.dims, slot.dims, sizeof slot.dims);
  feed.batch.resize(feed.array.row_bytes * static_cast<size_t>(slot.dims[0]));
  return {};
}

/// Finds the inputs: "target", learning rates ("lr..."), and one more, the data.
std::string make_inputs(const reprise::Session& session, const Options& o, float& rate,
                        std::vector<Feed>& feeds, std::vector<reprise_tensor>& rates) {
  rate = o.lr;
  for (size_t i = 0; i < reprise_session_input_count(session.get()); ++i) {
    reprise_slot slot = REPRISE_SLOT_INIT;
    reprise_error e{};
    if (reprise_session_input(session.get(), i, &slot, &e) != REPRISE_OK) return e.message;
    if (std::strcmp(slot.name, "lr") == 0 || std::strncmp(slot.name, "lr.", 3) == 0) {
      reprise_tensor t = REPRISE_TENSOR_INIT;
      t.name = slot.name;
      t.data = &rate;
      t.bytes = sizeof rate;
      rates.push_back(t);
      continue;
    }
    const bool target = std::strcmp(slot.name, "target") == 0;
    const std::string wrong = make_feed(slot, target ? o.targets : o.data, feeds.emplace_back());
    if (!wrong.empty()) return wrong;
  }
  return feeds.size() == 2 ? std::string() : "the package must have one input besides \"target\"";
}

int train(const Options& o) {
  const auto package = reprise::Package::open(o.package);
  if (!package) return fail(package.error().message);
  const auto device =
      o.device == "auto" ? reprise::Device::open_for(*package) : reprise::Device::open(o.device);
  if (!device) return fail(device.error().message);
  auto session = reprise::Session::create(*package, *device);
  if (!session) return fail(session.error().message);
  if (!o.load.empty()) {
    const reprise::Error e = session->load_states(o.load);
    if (e.status != REPRISE_OK) return fail(e.message);
  }
  float rate = 0;
  std::vector<Feed> feeds;
  feeds.reserve(8);
  std::vector<reprise_tensor> rates;
  const std::string wrong = make_inputs(*session, o, rate, feeds, rates);
  if (!wrong.empty()) return fail(wrong);
  std::printf("%zu states on %s\n", session->states().size(), device->info().id);
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
    if (reprise_session_run(session->get(), inputs.data(), inputs.size(), &output, 1, nullptr,
                            nullptr, &e) != REPRISE_OK)
      return fail(e.message);
    if (step % 10 == 0 || step + 1 == o.steps) std::printf("step %d loss %.6f\n", step, loss);
  }
  if (o.save.empty()) return 0;
  const reprise::Error e = session->save_states(o.save);
  if (e.status != REPRISE_OK) return fail(e.message);
  std::printf("%s: the states\n", o.save.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  return train(options);
}
