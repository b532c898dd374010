// reprise_primitives: runs the assembly functions of CUDA kernels, one by one, and compares their
// results with recorded ones (tests/primitives), bit by bit. Where they differ, it tries kernels
// that read the instruction set in another way, and names the one that matches.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/common/devices.h"
#include "apps/common/files.h"
#include "apps/common/status.h"
#include "runtime/session/session.h"

namespace reprise::bench {
namespace {

using Json = nlohmann::ordered_json;
using Bytes = std::vector<std::byte>;

struct Options {
  std::string folder, device = "cuda:0", json;
};

Result<Bytes> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  if (!in) return Status(Code::Io, "cannot read " + path);
  const auto* bytes = reinterpret_cast<const std::byte*>(all.data());
  return Bytes(bytes, bytes + all.size());
}

Result<Json> read_index(const std::string& path) {
  RP_ASSIGN(const Bytes bytes, read_bytes(path));
  Json index =
      Json::parse(reinterpret_cast<const char*>(bytes.data()),
                  reinterpret_cast<const char*>(bytes.data()) + bytes.size(), nullptr, false);
  if (!index.is_object() || !index.contains("primitives"))
    return Status(Code::InvalidModel, path + " is not a list of primitives");
  return index;
}

/// Runs the primitives of a folder.
class Check {
 public:
  Check(const Options& options, std::shared_ptr<Device> device)
      : o_(options), device_(std::move(device)) {}

  Result<int> run() {
    RP_ASSIGN(const Json index, read_index(o_.folder + "/index.json"));
    Json document{{"device", device_->info().name}, {"arch", index["arch"]}};
    document["primitives"] = Json::array();
    bool differs = false;
    for (const Json& p : index["primitives"]) {
      Json row = one(p);
      differs = differs || row["status"] != "pass";
      std::printf("%s  %s%s%s\n", row["status"].get<std::string>().c_str(),
                  row["name"].get<std::string>().c_str(), row.contains("reason") ? ": " : "",
                  row.value("reason", "").c_str());
      std::fflush(stdout);
      document["primitives"].push_back(std::move(row));
      if (!o_.json.empty()) RP_TRY(app::write_file(o_.json, document.dump(1) + "\n"));
    }
    return differs ? app::kDiffers : app::kDone;
  }

 private:
  Json one(const Json& p) {
    Json row{{"name", p["name"]}};
    const auto inputs = all_bytes(p["inputs"]), expected = all_bytes(p["results"]);
    const Status readable = inputs.ok() ? expected.status() : inputs.status();
    if (!readable.ok()) return failed(std::move(row), readable);
    const auto results = results_of(p["package"], *inputs);
    if (!results.ok()) return failed(std::move(row), results.status());
    if (*results == *expected) {
      row["status"] = "pass";
      return row;
    }
    row["status"] = "differs";
    row["reason"] = difference(*results, *expected);
    row["matches"] = Json::array();
    for (const Json& reading : p["readings"]) {
      const auto other = results_of(reading["package"], *inputs);
      if (other.ok() && *other == *expected) row["matches"].push_back(reading["name"]);
    }
    std::string matches;
    for (const Json& name : row["matches"])
      matches += (matches.empty() ? "" : ", ") + name.get<std::string>();
    const std::string tried = std::to_string(p["readings"].size()) + " other readings tried, ";
    row["reason"] = row["reason"].get<std::string>() + "; " + tried +
                    (matches.empty() ? "none matches" : "it matches with " + matches);
    return row;
  }

  static Json failed(Json row, const Status& why) {
    row["status"] = "failed";
    row["reason"] = why.message();
    return row;
  }

  /// How many bytes differ, and where the first one is.
  static std::string difference(const std::vector<Bytes>& got, const std::vector<Bytes>& expected) {
    if (got.size() != expected.size()) return "another number of results";
    for (size_t n = 0; n < got.size(); ++n) {
      if (got[n].size() != expected[n].size()) return "a result of another size";
      const auto at = std::mismatch(got[n].begin(), got[n].end(), expected[n].begin());
      if (at.first == got[n].end()) continue;
      size_t bytes = 0;
      for (size_t i = 0; i < got[n].size(); ++i) bytes += got[n][i] != expected[n][i] ? 1 : 0;
      return std::to_string(bytes) + " of " + std::to_string(got[n].size()) +
             " bytes differ, from byte " + std::to_string(at.first - got[n].begin()) + " on";
    }
    return "nothing differs";
  }

  Result<std::vector<Bytes>> all_bytes(const Json& files) const {
    std::vector<Bytes> out;
    for (const Json& file : files) {
      RP_ASSIGN(Bytes bytes, read_bytes(o_.folder + "/" + file.get<std::string>()));
      out.push_back(std::move(bytes));
    }
    return out;
  }

  Result<std::vector<Bytes>> results_of(const Json& package, const std::vector<Bytes>& inputs) {
    RP_ASSIGN(auto read, package::read(o_.folder + "/" + package.get<std::string>()));
    SessionOptions options;
    options.timeout_ns = 2'000'000'000;
    RP_ASSIGN(const auto session, Session::create(std::move(read), device_, options));
    std::vector<HostTensor> tensors;
    std::vector<Binding> bindings;
    tensors.reserve(inputs.size());
    for (size_t n = 0; n < inputs.size(); ++n) {
      HostTensor& t = tensors.emplace_back(
          DType::U8, std::vector<int64_t>{static_cast<int64_t>(inputs[n].size())});
      std::ranges::copy(inputs[n], t.mutable_bytes().begin());
      bindings.push_back({.name = session->io().inputs.at(n).name, .host = &t});
    }
    RP_ASSIGN(const std::vector<HostTensor> outputs, session->run(bindings));
    std::vector<Bytes> results;
    for (const HostTensor& t : outputs) results.emplace_back(t.bytes().begin(), t.bytes().end());
    return results;
  }

  const Options& o_;
  std::shared_ptr<Device> device_;
};

int parse_and_run(int argc, char** argv) {
  Options o;
  CLI::App app{"Compares assembly functions of CUDA kernels with recorded results."};
  app.add_option("folder", o.folder, "What reprise_record_primitives wrote")->required();
  app.add_option("--device", o.device, "The GPU: cuda[:N]")->capture_default_str();
  app.add_option("--json", o.json, "Write results to a file, again after each primitive");
  app.footer("Exit status: 0 all results are the recorded ones, 1 some differ, 2 usage, 4 failed.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? app::kDone : app::kUsage;
  }
  const auto run = [&]() -> Result<int> {
    RP_ASSIGN(const OpenedDevice opened,
              app::open_named_device(o.device, app::default_backend_options()));
    if (!opened.device || opened.info.facts.api != Api::Cuda)
      return Status(Code::Usage, "--device must be a CUDA device, such as cuda:0");
    return Check(o, opened.device).run();
  };
  const Result<int> status = run();
  return status.ok() ? *status : app::report(status.status());
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  return reprise::app::guarded_main(reprise::bench::parse_and_run, argc, argv);
}
