#include "runtime/host/host_kernels.h"

#include <algorithm>
#include <atomic>

#include "reprise_host_build.h"
#include "runtime/base/current_host_memory.h"
#include "runtime/host/extra_kernels.h"
#include "runtime/host/image_decoder.h"
#include "runtime/host/own_library.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

// The list of all families of every runtime; there is no automatic registration.
constexpr TableFunction kFamilies[] = {
    unary_table,         binary_table,         logic_table,    cast_table,      shape_table,
    movement_table,      slice_table,          pad_table,      gather_table,    scatter_table,
    reduce_table,        matmul_table,         conv_table,     pool_table,      softmax_table,
    normalization_table, resize_table,         quantize_table, select_table,    generate_table,
    einsum_table,        attention_table,      boxes_table,    recurrent_table, random_table,
    image_table,         invalid_branch_table,
};
/// Only that of InvalidBranch, the last.
constexpr KernelSet kKernels{kFamilies, 1};

constexpr const char* kExtrasLibrary = "reprise_extras";
constinit std::atomic<const ExtraKernels*> linked_extras = nullptr;

struct Extras {
  const ExtraKernels* kernels = nullptr;
  std::string missing;  // why there are none
};

Extras open_extras() {
  Extras extras;
  const platform::Library library = open_own_library(kExtrasLibrary);
  if (!library) {
    extras.missing = library.error();
    return extras;
  }
  const auto get = library.function<ExtraKernelsFunction>("reprise_extra_kernels");
  if (get != nullptr) extras.kernels = get(REPRISE_HOST_BUILD);
  if (extras.kernels == nullptr) extras.missing = "it is of another build than this runtime";
  return extras;
}

const Extras& opened_extras() {
  static const Extras opened = open_extras();
  return opened;
}

const ExtraKernels* extras() {
  const ExtraKernels* const linked = linked_extras;
  return linked != nullptr ? linked : opened_extras().kernels;
}

/// Entry of the extras; null if they have none, or are not there.
const Entry* find_extra(std::string_view op) {
  const ExtraKernels* const e = extras();
  return e == nullptr ? nullptr : e->kernels->find(op);
}

KernelResult run_own(const Call& c) {
  return kKernels.run(c);
}
KernelResult run_extra(const Call& c) {
  return extras()->run(c, current_host_memory());
}

}  // namespace

void link_extras(const ExtraKernels& extras) {
  linked_extras = &extras;
}

Kernel find(std::string_view op) {
  if (kKernels.find(op) != nullptr) return run_own;
  return find_extra(op) != nullptr ? run_extra : nullptr;
}

Status require(std::string_view op) {
  if (find(op) != nullptr) return {};
  if (extras() != nullptr)
    return unsupported("it has no host kernel; replace the operator in the model");
  const std::string library = platform::library_name(kExtrasLibrary);
  return unsupported(
      "the operator needs " + library + ", which cannot be opened (" + opened_extras().missing +
      "): put the library of this build beside the program " +
      "or where the dynamic loader finds it, or link the program with reprise::extras_static");
}

Result<std::shared_ptr<const Prepared>> prepare(const Call& c) {
  if (kKernels.find(c.op) != nullptr) return kKernels.prepare(c);
  if (find_extra(c.op) == nullptr) return std::shared_ptr<const Prepared>();
  return extras()->prepare(c, current_host_memory());
}

bool can_prepare(std::string_view op) {
  const Entry* e = kKernels.find(op);
  if (e == nullptr) e = find_extra(op);
  return e != nullptr && e->prepare != nullptr;
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  kKernels.add_names(all);
  if (const ExtraKernels* e = extras()) e->kernels->add_names(all);
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace reprise::host
