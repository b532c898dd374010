// Errors as values. The library never throws across its API, prints or aborts.
#pragma once

#include <cassert>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace reprise {

/// The numbers are those of the C interface (reprise_status).
enum class Code : unsigned char {
  Ok,
  Usage,         // the caller asked for something that does not exist (option, pass, device name)
  InvalidModel,  // the model or input file is malformed
  InvalidInput,  // a run-time input has a wrong name, shape, dtype or value
  Unsupported,   // well-formed, but this build or device cannot do it; the message says what to do
  Io,            // a file could not be read or written
  Device,        // a driver call failed, or the device reported an error
  Internal,      // a broken invariant: always a bug of this library
  OutOfMemory,   // of the host or of the device
  Timeout,       // a run did not end within its time limit
  DeviceLost,    // nothing works on the device, or on its context, any more
  Cancelled,     // the caller asked to stop
  CorruptPackage,       // the package is damaged, truncated or not a package
  IncompatiblePackage,  // the package is of another format version, or for other devices
  Busy,                 // as many runs are in flight as the session may have
};

/// Whether the device or its driver failed, so that another device may succeed.
constexpr bool is_device_failure(Code code) {
  return code == Code::Device || code == Code::OutOfMemory || code == Code::Timeout ||
         code == Code::DeviceLost;
}

/// Success, or a code with a message. The message names the node, tensor or file and says what was
/// expected and what was found. It is for people: programs read the code and the nodes.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::Ok; }
  explicit operator bool() const { return ok(); }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  /// The names of the model's nodes that the error concerns: several if a kernel computes them
  /// together, none if the error concerns no node. Valid while this object is.
  std::span<const std::string> nodes() const {
    return nodes_ ? std::span<const std::string>(*nodes_) : std::span<const std::string>();
  }
  /// Returns the same error with "context: " in front of the message; success stays success.
  Status with_context(const std::string& context) const {
    return ok() ? *this : reworded(code_, context + ": " + message_);
  }
  /// Returns an error of the same nodes.
  Status reworded(Code code, std::string message) const {
    Status s(code, std::move(message));
    s.nodes_ = nodes_;
    return s;
  }
  /// Returns the same error with these nodes, unless it has some: the innermost caller knows best.
  Status about(std::vector<std::string> nodes) const {
    if (ok() || nodes_ || nodes.empty()) return *this;
    Status s = *this;
    s.nodes_ = std::make_shared<const std::vector<std::string>>(std::move(nodes));
    return s;
  }
  Status about(std::string node) const {
    return ok() || nodes_ || node.empty() ? *this
                                          : about(std::vector<std::string>{std::move(node)});
  }

 private:
  Code code_ = Code::Ok;
  std::string message_;
  std::shared_ptr<const std::vector<std::string>>
      nodes_;  // null for most: success allocates nothing
};

/// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : v_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Status s)
      : v_(std::in_place_index<1>, std::move(s)) {  // NOLINT(google-explicit-constructor)
    assert(!std::get<1>(v_).ok());
  }
  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return std::get<0>(v_); }
  const T& operator*() const& { return std::get<0>(v_); }
  T&& operator*() && { return std::get<0>(std::move(v_)); }
  T* operator->() { return &std::get<0>(v_); }
  const T* operator->() const { return &std::get<0>(v_); }
  Status status() const { return ok() ? Status() : std::get<1>(v_); }

 private:
  std::variant<T, Status> v_;
};

inline Status invalid_model(std::string m) {
  return {Code::InvalidModel, std::move(m)};
}
inline Status invalid_input(std::string m) {
  return {Code::InvalidInput, std::move(m)};
}
inline Status unsupported(std::string m) {
  return {Code::Unsupported, std::move(m)};
}
inline Status corrupt_package(std::string m) {
  return {Code::CorruptPackage, std::move(m)};
}
inline Status incompatible_package(std::string m) {
  return {Code::IncompatiblePackage, std::move(m)};
}
inline Status out_of_memory(std::string m) {
  return {Code::OutOfMemory, std::move(m)};
}
inline Status internal_error(std::string m) {
  return {Code::Internal, std::move(m)};
}

// RP_TRY(expr) returns the Status `expr` from the function if it is a failure. RP_ASSIGN(decl,
// expr) does so for a Result, and otherwise initialises `decl` with its value.
#define RP_CONCAT_INNER(a, b) a##b
#define RP_CONCAT(a, b) RP_CONCAT_INNER(a, b)
// The names are numbered because `expr` may contain a lambda whose body uses the macros again.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration and its name take no parentheses.
#define RP_TRY(expr) RP_TRY_IMPL(RP_CONCAT(rp_status_, __COUNTER__), expr)
#define RP_TRY_IMPL(tmp, expr)      \
  do {                              \
    ::reprise::Status tmp = (expr); \
    if (!tmp.ok()) return tmp;      \
  } while (0)
#define RP_ASSIGN(decl, expr) RP_ASSIGN_IMPL(RP_CONCAT(rp_result_, __COUNTER__), decl, expr)
#define RP_ASSIGN_IMPL(tmp, decl, expr) \
  auto tmp = (expr);                    \
  if (!tmp.ok()) return tmp.status();   \
  decl = std::move(*tmp)
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace reprise
