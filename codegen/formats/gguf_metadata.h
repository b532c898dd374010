// A part of the metadata of a GGUF file, as a GGUF file of its own.
#pragma once

#include <string>
#include <string_view>

#include "codegen/formats/gguf.h"

namespace reprise::formats {

/// A file without tensors that has those keys of `file` which begin with `prefix`.
std::string gguf_of_keys(const Gguf& file, std::string_view prefix);
/// Standard base64, with padding.
std::string encode_base64(std::string_view bytes);

}  // namespace reprise::formats
