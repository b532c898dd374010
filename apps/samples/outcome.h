// How sample applications report errors: a message, and the exit statuses of the reprise command
// line.
#pragma once

#include <cstdio>
#include <exception>

#include "reprise/reprise.hpp"

namespace samples {

enum Exit : int { kDone = 0, kUsage = 2, kInvalid = 3, kFailed = 4 };

inline bool failed(const reprise::Error& error) {
  return error.status != REPRISE_OK;
}

/// Prints the message to stderr, and returns the exit status.
inline int report(const reprise::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  switch (error.status) {
    case REPRISE_OK:
      return kDone;
    case REPRISE_USAGE:
      return kUsage;
    case REPRISE_INVALID_MODEL:
    case REPRISE_INVALID_INPUT:
    case REPRISE_UNSUPPORTED:
    case REPRISE_CORRUPT_PACKAGE:
    case REPRISE_INCOMPATIBLE_PACKAGE:
      return kInvalid;
    default:
      return kFailed;
  }
}

/// The exit status of `program`. An exception of a library of the sample becomes a message.
template <typename F>
int exit_status_of(const F& program) {
  try {
    return program();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return kFailed;
  }
}

}  // namespace samples
