#include "apps/samples/kept_package.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "apps/samples/outcome.h"
#include "apps/samples/path.h"
#include "apps/samples/text_output.h"

namespace samples {
namespace fs = std::filesystem;

using reprise::Error;
using reprise::Package;
using reprise::Result;

namespace {

/// A line for each target.
std::string lines_of(std::vector<std::string> targets) {
  std::ranges::sort(targets);
  std::string out;
  for (const std::string& target : targets) out += target + "\n";
  return out;
}

}  // namespace

KeptPackage::Options::Options(const KeptPackage& of) {
  targets.reserve(of.targets.size());
  for (const std::string& target : of.targets) targets.push_back(target.c_str());
  ranges.reserve(of.ranges.size());
  for (const std::string& range : of.ranges) ranges.push_back(range.c_str());
  raw.targets = targets.empty() ? nullptr : targets.data();
  raw.target_count = targets.size();
  raw.ranges = ranges.empty() ? nullptr : ranges.data();
  raw.range_count = ranges.size();
}

bool KeptPackage::has_targets() const {
  if (targets.empty()) return true;
  std::ifstream in(utf8_path(targets_file()), std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {}) == lines_of(targets);
}

/// An error of the status REPRISE_INCOMPATIBLE_PACKAGE: it has to be compiled.
Result<Package> KeptPackage::open_kept() const {
  std::error_code error;
  if (!fs::exists(utf8_path(model), error) && !fs::exists(utf8_path(package), error))
    return Error{REPRISE_IO, "there is neither " + package + " nor " + model + "; " + help};
  const bool unwanted = recompile || !has_targets();
  if (is_newer(model, package) || (unwanted && fs::exists(utf8_path(model), error)))
    return Error{REPRISE_INCOMPATIBLE_PACKAGE, package + " is not up to date"};
  return Package::open(package);
}

bool KeptPackage::can_compile(const Error& error) const {
  std::error_code none;
  if (error.status != REPRISE_INCOMPATIBLE_PACKAGE || !fs::exists(utf8_path(model), none))
    return false;
  std::fprintf(stderr, "note: compiling %s to %s, once\n", model.c_str(), package.c_str());
  return true;
}

void KeptPackage::keep(const Package& compiled) const {
  std::error_code none;
  fs::remove(utf8_path(targets_file()), none);  // so that it never names those of another package
  Error kept = compiled.save(package);
  if (!failed(kept) && !targets.empty()) kept = write_file(targets_file(), lines_of(targets));
  report_not_kept(kept);
}

bool is_newer(const std::string& model, const std::string& made) {
  std::error_code no_model, not_made;
  const auto of_model = fs::last_write_time(utf8_path(model), no_model);
  const auto of_made = fs::last_write_time(utf8_path(made), not_made);
  return !no_model && (not_made || of_model > of_made);
}

void report_not_kept(const Error& error) {
  if (failed(error)) std::fprintf(stderr, "note: not kept: %s\n", error.message.c_str());
}

}  // namespace samples
