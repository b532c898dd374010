// The compiled model (.rpk): target-neutral interface, variants, raw weights, and the host plan.
// Layout: 64-byte header (magic, version, sizes, checksum of the metadata), FlatBuffers metadata,
// then weight segments with 64-bit offsets, each with its XXH3 in the metadata: small ones
// together at multiples of 64, those of 64 KiB and more at multiples of 4 KiB. The metadata holds
// the code of kernels, once each, compressed with zstd on its own and with a dictionary for all; it
// is decompressed when a session takes their variant. A reader trusts nothing: offsets, sizes,
// enumerations and plans are verified before use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/probe.h"

namespace reprise::package {

class CodeStore;

/// Where the code of a kernel lies in a package that was read; UINT32_MAX: it has none.
struct StoredCode {
  uint32_t spirv = UINT32_MAX, cuda = UINT32_MAX, image = UINT32_MAX;
};

struct Variant {
  std::string name;  // "vulkan-cpu-sg8", "vulkan-portable", "cuda-sm_90"
  Predicate predicate;
  plan::Plan plan;
  std::vector<plan::Probe> probes;  // one per kernel of the plan; or none: compiled without
  /// One per kernel where the package was read: the plan's kernels are without code until
  /// load_kernels(). Empty where it was compiled here: the plan's kernels have their code.
  std::vector<StoredCode> stored;
};

/// What explain prints, recorded by the compiler. Strings are for people.
struct GroupInfo {
  std::string kernel;
  std::vector<std::string> nodes;
  int64_t bytes_read = -1, bytes_written = -1;  // -1: depends on dynamic sizes
  std::string schedule;
};
struct Unfused {
  std::string from, to, reason;
};
/// A node whose result stays in fp32 in a package of low precision.
struct KeptNode {
  std::string node, op, reason;
};
struct Explanation {
  int64_t model_nodes = 0;       // after import (functions inlined, constants as weights)
  int64_t launches_unfused = 0;  // with fusion switched off
  std::vector<Unfused> unfused;
  DType precision = DType::F32;  // F16 or BF16: of tensors in memory, where that is safe
  int64_t narrowed = 0;          // nodes whose results are so
  std::vector<KeptNode> kept;
};

struct Package {
  std::string model_name;
  std::string producer;  // "reprise 0.1.0"
  plan::Interface io;
  std::vector<HostTensor> weights;  // raw segments; borrowed from the mapped file when read
  std::vector<uint64_t> weight_hashes;
  std::vector<Variant> variants;  // in order of preference
  plan::Plan host_plan;           // HostCalls only: the imported graph, unfused. The reference.
  Explanation explanation;
  std::shared_ptr<const CodeStore> code;  // of Variant::stored
};

/// Verifies the package, then writes a temporary file beside `path` and renames it. Hashes are
/// computed here; Package::weight_hashes is not read.
Status write(const Package& p, const std::string& path);
/// Plans, interface and weights fit each other. Done by write and read.
Status verify(const Package& p);
/// Maps the file. Weight bytes are checked against their hashes when they are uploaded (or by
/// verify_weights), the code of kernels when it is loaded, everything else here.
Result<std::shared_ptr<const Package>> read(const std::string& path);
/// The same from memory, e.g. bytes that an application embeds; borrows `bytes` while alive (copies
/// them when they are not aligned to 64).
Result<std::shared_ptr<const Package>> read_memory(std::span<const std::byte> bytes,
                                                   std::shared_ptr<const void> owner);
Status verify_weights(const Package& p);
/// The kernels of one of the package's variants with their code: decompressed, compared with its
/// hash and checked. Errors name the package and the kernel.
Result<std::vector<plan::KernelCode>> load_kernels(const Package& p, const Variant& v);
/// The package with the code of all kernels in its plans: for tools that look at all of it.
Result<std::shared_ptr<const Package>> unpack(std::shared_ptr<const Package> p);
/// XXH3, 64 bits.
uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace reprise::package
