// The list of what libreprise_extras has, and its function.
#include <cstring>

#include "reprise_host_build.h"
#include "runtime/host/extra_kernels.h"
#include "runtime/host/extras/extras.h"
#include "runtime/host/tables.h"

namespace reprise::host {
namespace {

constexpr TableFunction kExtraFamilies[] = {
    ml_encode_table, ml_linear_table,  ml_trees_table,         ml_svm_table,   strings_table,
    tokenizer_table, ngrams_table,     signal_table,           loss_table,     gradients_table,
    col2im_table,    gridsample_table, linear_attention_table, sampling_table, sequences_table,
    ml_maps_table,
};
constexpr KernelSet kExtraSet{kExtraFamilies, 2};  // sequences and maps

}  // namespace

const ExtraKernels& extra_kernels() {
  static constexpr ExtraKernels kExtras{&kExtraSet,
                                        [](const Call& c, const HostMemoryPtr& memory) {
                                          const HostMemoryScope scope(memory);
                                          return kExtraSet.run(c);
                                        },
                                        [](const Call& c, const HostMemoryPtr& memory) {
                                          const HostMemoryScope scope(memory);
                                          return kExtraSet.prepare(c);
                                        }};
  return kExtras;
}

}  // namespace reprise::host

#ifndef _WIN32  // where a list of exports says it
__attribute__((visibility("default")))
#endif
const reprise::host::ExtraKernels*
reprise_extra_kernels(const char* build) {
  return std::strcmp(build, REPRISE_HOST_BUILD) == 0 ? &reprise::host::extra_kernels() : nullptr;
}
