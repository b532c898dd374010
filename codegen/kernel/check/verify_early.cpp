#include "codegen/kernel/check/verify_early.h"

#include <string>

namespace reprise::kernel {
namespace {

class EarlyVerifier {
 public:
  explicit EarlyVerifier(const Kernel& k) : k_(k) {}

  Status run() { return block(0); }

 private:
  Status error(int32_t id, const std::string& problem) const {
    return internal_error("kernel '" + k_.name + "': %" + std::to_string(id) + ": " + problem);
  }

  Status block(int32_t index) {
    for (const int32_t id : k_.blocks[static_cast<size_t>(index)].insts) {
      const Inst& i = k_.insts[static_cast<size_t>(id)];
      if (i.op == Op::AwaitLaunches) {
        if (index != 0) return error(id, "some invocations may not await earlier launches");
        if (awaited_) return error(id, "awaits earlier launches again");
        if (accessed_) return error(id, "awaits earlier launches after an access to a buffer");
        awaited_ = true;
      }
      accessed_ = accessed_ || accesses_buffers(i.op);
      for (const int32_t inner : i.blocks) RP_TRY(block(inner));
    }
    return {};
  }

  const Kernel& k_;
  bool awaited_ = false, accessed_ = false;
};

}  // namespace

Status verify_early(const Kernel& k) {
  return EarlyVerifier(k).run();
}

}  // namespace reprise::kernel
