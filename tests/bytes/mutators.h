// Changes of encoded data that keep the encoding right, so that damage reaches what lies behind the
// decoder.
#pragma once

#include <string>

#include "tests/bytes/targets.h"

namespace reprise::test {

/// Changes a few bytes of any data.
std::string mutate_bytes(const std::string& bytes, Random& random);
/// Changes, removes, repeats and exchanges fields of a protobuf message, whatever its schema.
std::string mutate_protobuf(const std::string& bytes, Random& random);
/// Changes lines, words and numbers of a text.
std::string mutate_text(const std::string& text, Random& random);
/// Changes scalars, elements and characters in the metadata of a package. Checksums stay right.
std::string mutate_package(const std::string& bytes, Random& random);
/// The same file with the checksums that its contents have.
std::string with_checksums(std::string bytes);

/// A number at the edge of something: 0, 1, -1, powers of two and their neighbours.
int64_t edge_number(Random& random);
inline size_t below(Random& random, size_t count) {
  return random() % count;
}

}  // namespace reprise::test
