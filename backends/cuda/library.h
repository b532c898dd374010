// The driver's library, opened at run time, as a table of functions.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/api.h"
#include "backends/cuda/cuda.h"
#include "runtime/platform/library.h"

namespace reprise::cuda {

struct Table {
// NOLINTBEGIN(bugprone-macro-parentheses): a name and its parameters take none.
#define REPRISE_CUDA_MEMBER(name, parameters) CUresult(*name) parameters = nullptr;
  REPRISE_CUDA_SYMBOLS(REPRISE_CUDA_MEMBER)
  REPRISE_CUDA_OPTIONAL_SYMBOLS(REPRISE_CUDA_MEMBER)
#undef REPRISE_CUDA_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)
};

/// The oldest supported driver, as cuDriverGetVersion reports it.
inline constexpr int kLeastDriver = 12000;

class Library {
 public:
  /// Opens and initialises the driver. The error says why CUDA cannot be used and what to do.
  static Result<std::shared_ptr<const Library>> open(const std::string& name,
                                                     const TableHook& hook);
  const Table& fn() const { return fn_; }
  int version() const { return version_; }
  /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
  std::string describe(CUresult error) const;

 private:
  Status resolve(const platform::Library& from, const std::string& name);
  Status check_version(const std::string& name);
  Status initialise() const;

  Table fn_;
  int version_ = 0;
};

/// "13.0" for 13000.
std::string version_text(int version);

}  // namespace reprise::cuda
