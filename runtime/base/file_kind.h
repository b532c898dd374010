// What a file is that users take for a model or a tensor.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace reprise {

/// The bytes that file_kind() looks at.
inline constexpr size_t kFileKindBytes = 64;

/// "a Git LFS pointer; fetch the file itself with 'git lfs pull'" for a file that begins like this.
/// Empty for ONNX files, and for files that are not known.
std::string file_kind(std::span<const std::byte> start);
/// Whether a file may be an ONNX model, by the first fields.
bool looks_like_onnx(std::span<const std::byte> start);

}  // namespace reprise
