// The C interface over packages.
#include <algorithm>
#include <array>
#include <cstddef>

#include "capi/api.h"

namespace reprise::capi {

template <>
inline constexpr std::array kStructEnds<reprise_package_info>{
    offsetof(reprise_package_info, symbol_count)};

namespace {

/// The sizes that inputs decide: positions in Interface::symbols.
std::vector<size_t> sizes_of_inputs(const plan::Interface& io) {
  std::vector<size_t> out;
  for (size_t i = 0; i < io.sources.size(); ++i)
    if (io.sources[i].kind == SymbolSource::Kind::InputDim) out.push_back(i);
  return out;
}

reprise_variant describe(const package::Variant& v) {
  reprise_variant out = REPRISE_VARIANT_INIT;
  out.name = v.name.c_str();
  out.kernel_count = static_cast<uint32_t>(v.plan.kernels.size());
  out.launch_count = static_cast<uint32_t>(std::ranges::count_if(
      v.plan.steps, [](const auto& s) { return std::holds_alternative<plan::Launch>(s.what); }));
  out.host_call_count = static_cast<uint32_t>(v.plan.steps.size()) - out.launch_count;
  out.has_probes = v.probes.empty() ? 0 : 1;
  return out;
}

reprise_package_info describe(const package::Package& p) {
  reprise_package_info out = REPRISE_PACKAGE_INFO_INIT;
  out.model = p.model_name.c_str();
  out.producer = p.producer.c_str();
  for (const HostTensor& w : p.weights) out.weight_bytes += package::weight_bytes(w);
  out.input_count = static_cast<uint32_t>(p.io.inputs.size());
  out.output_count = static_cast<uint32_t>(p.io.outputs.size());
  out.state_count = static_cast<uint32_t>(p.io.states.size());
  out.variant_count = static_cast<uint32_t>(p.variants.size());
  out.metadata_count = static_cast<uint32_t>(p.metadata.size());
  out.symbol_count = static_cast<uint32_t>(sizes_of_inputs(p.io).size());
  return out;
}

}  // namespace
}  // namespace reprise::capi

using namespace reprise;
using namespace reprise::capi;

reprise_status reprise_package_open(const char* path, reprise_package** out, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!path || !out) return missing("path or out");
    RP_ASSIGN(auto package, package::read(path));
    *out = make_handle(std::make_shared<reprise_package>(std::move(package)));
    return {};
  });
}

reprise_status reprise_package_open_memory(const void* bytes, size_t size, reprise_package** out,
                                           reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!bytes || !out) return missing("bytes or out");
    RP_ASSIGN(auto package,
              package::read_memory({static_cast<const std::byte*>(bytes), size}, nullptr));
    *out = make_handle(std::make_shared<reprise_package>(std::move(package)));
    return {};
  });
}

reprise_status reprise_package_open_part(intptr_t file, uint64_t offset, uint64_t length,
                                         reprise_package** out, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    RP_ASSIGN(auto package, package::read_part(file, offset, length));
    *out = make_handle(std::make_shared<reprise_package>(std::move(package)));
    return {};
  });
}

reprise_status reprise_package_save(const reprise_package* package, const char* path,
                                    reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!path) return missing("path");
    RP_ASSIGN(const auto held, find_handle(package));
    return package::write(*held->package, path);
  });
}

void reprise_package_free(reprise_package* package) {
  free_handle(package);
}

reprise_status reprise_package_get_info(const reprise_package* package, reprise_package_info* info,
                                        reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!info) return missing("info");
    RP_TRY(check_out(info, "reprise_package_info"));
    RP_ASSIGN(const auto held, find_handle(package));
    write_struct(describe(*held->package), info);
    return {};
  });
}

reprise_status reprise_package_variant(const reprise_package* package, size_t index,
                                       reprise_variant* variant, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!variant) return missing("variant");
    RP_TRY(check_out(variant, "reprise_variant"));
    RP_ASSIGN(const auto held, find_handle(package));
    RP_TRY(check_index(index, held->package->variants.size(), "variants"));
    write_struct(describe(held->package->variants[index]), variant);
    return {};
  });
}

reprise_status reprise_package_metadata(const reprise_package* package, size_t index,
                                        const char** name, const char** value,
                                        reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!name || !value) return missing("name or value");
    RP_ASSIGN(const auto held, find_handle(package));
    const auto& all = held->package->metadata;
    RP_TRY(check_index(index, all.size(), "properties"));
    *name = all[index].first.c_str();
    *value = all[index].second.c_str();
    return {};
  });
}

reprise_status reprise_package_symbol(const reprise_package* package, size_t index,
                                      reprise_symbol* symbol, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!symbol) return missing("symbol");
    RP_TRY(check_out(symbol, "reprise_symbol"));
    RP_ASSIGN(const auto held, find_handle(package));
    const plan::Interface& io = held->package->io;
    const std::vector<size_t> sizes = sizes_of_inputs(io);
    RP_TRY(check_index(index, sizes.size(), "symbols"));
    const Symbol& s = io.symbols[sizes[index]];
    reprise_symbol out = REPRISE_SYMBOL_INIT;
    out.name = s.name.c_str();
    out.min = s.min;
    out.max = s.max;
    out.divisor = s.divisor;
    write_struct(out, symbol);
    return {};
  });
}

reprise_status reprise_package_input(const reprise_package* package, size_t index,
                                     reprise_slot* slot, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(package));
    return describe_slot(held->package->io.inputs, held->shapes.inputs, index, slot, "inputs");
  });
}

reprise_status reprise_package_output(const reprise_package* package, size_t index,
                                      reprise_slot* slot, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(package));
    return describe_slot(held->package->io.outputs, held->shapes.outputs, index, slot, "outputs");
  });
}

reprise_status reprise_package_state(const reprise_package* package, size_t index,
                                     reprise_slot* slot, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(package));
    return describe_slot(held->package->io.states, held->shapes.states, index, slot, "states");
  });
}
