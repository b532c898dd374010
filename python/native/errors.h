// How errors of the library become Python exceptions: reprise.errors has one class for each code.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace reprise::python {

/// Becomes the exception for the code when it reaches Python.
class StatusError final : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)) {}
  const char* what() const noexcept override { return status_.message().c_str(); }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

/// Throws unless the status is success.
inline void check(Status status) {
  if (!status.ok()) throw StatusError(std::move(status));
}

/// Returns the value, or throws the error.
template <typename T>
T take(Result<T> result) {
  if (!result.ok()) throw StatusError(result.status());
  return *std::move(result);
}

[[noreturn]] inline void refuse(std::string message) {
  throw StatusError(invalid_input(std::move(message)));
}
[[noreturn]] inline void misuse(std::string message) {
  throw StatusError({Code::Usage, std::move(message)});
}

/// Makes nanobind translate StatusError. Called once, when the module is loaded.
void translate_errors();

}  // namespace reprise::python
