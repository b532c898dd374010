// What the fuzzers of bytes begin with: files of every kind that are accepted.
#pragma once

#include <string>
#include <vector>

namespace reprise::test {

/// Made from the ONNX suite, where it is installed, and from the graphs of other tests.
std::vector<std::string> seeds_of(const std::string& target);
/// Earlier findings, which stay mended: tests/bytes/corpus.
std::vector<std::string> findings_of(const std::string& target);

}  // namespace reprise::test
