// What the C++ layer returns: values, errors and owned handles. reprise.hpp includes it.
#ifndef REPRISE_RESULT_HPP_
#define REPRISE_RESULT_HPP_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "reprise/types.h"

namespace reprise {
inline namespace api {

struct Error {
  reprise_status status = REPRISE_OK;
  std::string message;
};

/// A value, or the error that says why there is none. Test it before you use the value.
template <typename T>
class Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(const reprise_error& e) : error_{e.status, e.message} {}
  Result(Error e) : error_(std::move(e)) {}
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

/// Calls the C interface.
template <typename F>
Error outcome(F&& call) {
  reprise_error e{};
  if (call(&e) == REPRISE_OK) return {};
  return {e.status, e.message};
}

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* p) const { Free(p); }
};
template <typename T, void (*Free)(T*)>
using Handle = std::unique_ptr<T, Freer<T, Free>>;

}  // namespace api
}  // namespace reprise

#endif
