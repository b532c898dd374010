#include <map>
#include <optional>

#include "apps/reprise/conformance.h"

namespace reprise::app {

namespace {

struct ConformanceOptions {
  CommonOptions common;
  std::string dir;
  std::string filter;
  PoolOptions pool;
};

Json case_json(const CaseResult& r) {
  return {{"name", r.name},
          {"status", r.status},
          {"reason", r.reason},
          {"max_error", number(r.max_error)},
          {"device_nodes", r.device_nodes},
          {"host_nodes", r.host_nodes}};
}

/// Prints results and counts them by status.
class CaseSummary {
 public:
  CaseSummary(const Output& out, bool verbose, size_t count)
      : out_(out), verbose_(verbose), count_(count) {}

  void add(const Json& result) {
    const std::string status = result["status"];
    ++totals_[status];
    ++seen_;
    progress_.clear();
    if (status != "pass") {
      out_.text(status + "  " + result["name"].get<std::string>() + ": " +
                result["reason"].get<std::string>() + "\n");
    } else if (verbose_) {
      out_.text("pass  " + result["name"].get<std::string>() + "\n");
    }
    if (seen_ < count_)
      progress_.show("[" + std::to_string(seen_) + "/" + std::to_string(count_) + "]");
  }
  int64_t total(const std::string& status) const {
    const auto it = totals_.find(status);
    return it == totals_.end() ? 0 : it->second;
  }
  Json totals() const {
    return {{"cases", count_},
            {"pass", total("pass")},
            {"fail", total("fail")},
            {"unsupported", total("unsupported")},
            {"error", total("error")}};
  }

 private:
  const Output& out_;
  bool verbose_;
  size_t count_, seen_ = 0;
  ProgressLine progress_;
  std::map<std::string, int64_t> totals_;
};

/// Resolves "auto" and reports bad names before the workers start, which each open the device. This
/// also happens in a worker, because drivers do not survive a fork.
Result<std::string> settle_device(const CommonOptions& common) {
  std::string answer;
  // A letter for the code, then the message.
  const auto failed = [](Code code, const std::string& message) {
    return static_cast<char>('A' + static_cast<int>(code)) + message;
  };
  const auto probe = [&](size_t) {
    Result<OpenedDevice> d = open_selected(common, {"model.onnx"});
    if (d.ok()) return "=" + d->info.id;
    return failed(d.status().code(), d.status().message());
  };
  RP_TRY(run_pool(
      1, {}, [] { return Status(); }, probe,
      [&answer](size_t, const std::string& line) { answer = line; },
      [&](size_t, const std::string& how) {
        answer = failed(Code::Device, "opening the device: the process " + how);
      }));
  if (!answer.empty() && answer[0] == '=') return answer.substr(1);
  const int code = answer.empty() ? static_cast<int>(Code::Device) : answer[0] - 'A';
  return Status(static_cast<Code>(code), answer.empty() ? "no answer" : answer.substr(1));
}

Result<int> run_conformance(const ConformanceOptions& o) {
  const Output out(o.common.json);
  RP_ASSIGN(const std::vector<std::string> names, find_cases(o.dir, o.filter));
  if (names.empty()) {
    return Status(Code::Usage, "no case (a folder with model.onnx) below '" + o.dir +
                                   "' matches '" + (o.filter.empty() ? "*" : o.filter) + "'");
  }
  CommonOptions common = o.common;
  RP_ASSIGN(common.device, settle_device(o.common));
  out.text("device " + common.device + ", " + std::to_string(names.size()) + " cases\n");

  std::optional<OpenedDevice> device;
  std::vector<Json> results(names.size());
  CaseSummary summary(out, common.verbose, names.size());
  const auto finish = [&](size_t i, Json result) {
    summary.add(result);
    results[i] = std::move(result);
  };
  RP_TRY(run_pool(
      names.size(), o.pool,
      [&]() -> Status {
        RP_ASSIGN(device, open_selected(common, {"model.onnx"}));
        return {};
      },
      [&](size_t i) {
        CaseResult result;
        // A device that failed may be lost, so it is opened again for the next case.
        if (!device) {
          Result<OpenedDevice> again = open_selected(common, {"model.onnx"});
          if (again.ok()) device = std::move(*again);
        }
        result = device ? run_case(o.dir, names[i], *device, common)
                        : CaseResult{names[i], "error", "the device could not be opened again"};
        if (result.device_failed) device.reset();
        return case_json(result).dump(-1, ' ', false, Json::error_handler_t::replace);
      },
      [&](size_t i, const std::string& line) {
        Json parsed = Json::parse(line, nullptr, false);
        const bool good = parsed.is_object() && parsed.contains("status");
        finish(i, good ? std::move(parsed)
                       : case_json({names[i], "error", "the worker's answer is malformed"}));
      },
      [&](size_t i, const std::string& how) {
        finish(i, case_json({names[i], "error", "the process " + how}));
      }));

  const Json totals = summary.totals();
  out.text(std::to_string(summary.total("pass")) + " pass, " +
           std::to_string(summary.total("fail")) + " fail, " +
           std::to_string(summary.total("unsupported")) + " unsupported, " +
           std::to_string(summary.total("error")) + " error, of " + std::to_string(names.size()) +
           " cases on " + common.device + "\n");
  RP_TRY(out.json({{"device", common.device}, {"cases", results}, {"totals", totals}}));
  return summary.total("fail") + summary.total("error") > 0 ? kDiffers : kDone;
}

}  // namespace

void register_conformance(CLI::App& root, int& status) {
  auto o = std::make_shared<ConformanceOptions>();
  CLI::App* command =
      root.add_subcommand("conformance", "Run cases in the layout of the ONNX backend suite");
  command->add_option("DIR", o->dir, "Every folder below it with a model.onnx is a case")
      ->required();
  command->add_option("--filter", o->filter, "Cases whose name matches, e.g. 'test_conv*'");
  command->add_option("--jobs", o->pool.jobs, "Cases that run at the same time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--timeout", o->pool.timeout_s, "Seconds that one case may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_common(*command, o->common);
  command->footer(
      "A case is a folder with model.onnx and test_data_set_N/input_M.pb, output_M.pb. Cases run\n"
      "in worker processes, so a crash affects only one case. Cases named test_* have the ONNX\n"
      "suite's tolerance (rtol 1e-3, atol 1e-7), others that of models. The exit status is 1 if a\n"
      "case fails or ends with an error; unsupported cases are listed and counted separately.\n"
      "Example: reprise conformance models --device vulkan:0 --filter 'bert*' --jobs 2");
  command->callback([o, &status] {
    Result<int> r = run_conformance(*o);
    status = r.ok() ? *r : report(r.status());
  });
}

}  // namespace reprise::app
