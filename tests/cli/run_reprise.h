// The command line as tests run it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {

using Json = nlohmann::json;

inline ProcessResult reprise(std::vector<std::string> args) {
  args.insert(args.begin(), program("reprise"));
  return run_process(args);
}

/// Runs with --json - and expects the status.
inline Json json_of(std::vector<std::string> args, int status = 0) {
  args.insert(args.end(), {"--json", "-"});
  const ProcessResult r = reprise(args);
  EXPECT_EQ(r.status, status) << r.err;
  Json json = Json::parse(r.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << r.out;
  return json;
}

}  // namespace reprise::test
