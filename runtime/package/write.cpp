#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "package_generated.h"
#include "runtime/base/align.h"
#include "runtime/package/code_store.h"
#include "runtime/package/header.h"
#include "runtime/package/package.h"
#include "runtime/package/placement.h"
#include "runtime/package/stored_weights.h"
#include "runtime/platform/output_file.h"

namespace reprise::package {
namespace {

using flatbuffers::Offset;
using flatbuffers::String;
using flatbuffers::Vector;
template <typename T>
using Tables = Offset<Vector<Offset<T>>>;
/// The lists of numbers that have been written, and their offsets.
template <typename T>
using Shared = std::map<std::vector<T>, Offset<Vector<T>>>;

class Serializer {
 public:
  flatbuffers::FlatBufferBuilder& builder() { return b_; }

  Status package(const Package& p, const Placement& weights) {
    std::vector<Offset<fb::Segment>> segments;
    for (size_t i = 0; i < p.weights.size(); ++i) {
      const auto parts = p.parts.find(static_cast<uint32_t>(i));
      segments.push_back(parts == p.parts.end() ? segment(p.weights[i], weights, i)
                                                : joined(p.weights[i], parts->second));
    }
    std::vector<Offset<fb::Variant>> variants;
    for (const Variant& v : p.variants) {
      const auto name = string(v.name);
      const auto needs = predicate(v.predicate);
      const auto kernels = plan(v.plan);
      const auto checks = probes(v.probes);
      Tables<fb::DeviceBody> bodies;
      if (!v.bodies.empty())
        bodies = tables<fb::DeviceBody>(v.bodies,
                                        [this](const DeviceBody& one) { return device_body(one); });
      Tables<fb::SizedPlan> plans;
      if (!v.plans.empty())
        plans = tables<fb::SizedPlan>(v.plans, [this](const SizedPlan& s) { return sized(s); });
      variants.push_back(fb::CreateVariant(b_, name, needs, kernels, checks, bodies, plans));
    }
    const auto name = string(p.model_name);
    const auto producer = string(p.producer);
    const auto io = interface(p.io);
    const auto segment_list = b_.CreateVector(segments);
    const auto variant_list = b_.CreateVector(variants);
    const auto host = plan(p.host_plan);
    const auto why = explanation(p.explanation);
    const auto bodies =
        tables<fb::Body>(p.bodies, [this](const plan::Body& one) { return body(one); });
    const auto metadata =
        tables<fb::Property>(p.metadata, [this](const std::pair<std::string, std::string>& one) {
          const auto key = string(one.first);
          return fb::CreateProperty(b_, key, string(one.second));
        });
    RP_TRY(code_.compress());
    const auto code = compressed(code_.code());
    const auto dictionaries = compressed(code_.dictionaries());
    b_.Finish(fb::CreatePackage(b_, name, producer, io, segment_list, variant_list, host, why, code,
                                dictionaries, bodies, metadata));
    return {};
  }

 private:
  Offset<String> string(const std::string& s) { return b_.CreateSharedString(s); }

  Offset<Vector<Offset<String>>> strings(const std::vector<std::string>& list) {
    std::vector<Offset<String>> out;
    out.reserve(list.size());
    for (const std::string& s : list) out.push_back(string(s));
    return b_.CreateVector(out);
  }

  template <typename List>
  Offset<Vector<int64_t>> exprs(const List& list) {
    std::vector<int64_t> code;
    for (const Expr& e : list) {
      const size_t length = code.size();
      code.push_back(0);
      e.encode(code);
      code[length] = static_cast<int64_t>(code.size() - length - 1);
    }
    return shared(code, numbers_);
  }

  /// Variants and launches of equal layers have equal lists; each distinct list is written once.
  template <typename T>
  Offset<Vector<T>> shared(const std::vector<T>& list, Shared<T>& known) {
    const auto [at, is_new] = known.try_emplace(list);
    if (is_new) at->second = b_.CreateVector(list);
    return at->second;
  }

  Tables<fb::Code> compressed(const std::vector<CompressedCode>& code) {
    return tables<fb::Code>(code, [this](const CompressedCode& c) {
      const auto data =
          b_.CreateVector(reinterpret_cast<const uint8_t*>(c.data.data()), c.data.size());
      return fb::CreateCode(b_, static_cast<uint8_t>(c.form), c.bytes, c.hash, data);
    });
  }

  template <typename T, typename List, typename F>
  Tables<T> tables(const List& list, F&& make) {
    std::vector<Offset<T>> out;
    out.reserve(list.size());
    for (const auto& item : list) out.push_back(make(item));
    return b_.CreateVector(out);
  }

  Offset<fb::Segment> segment(const HostTensor& t, const Placement& weights, size_t index) {
    const std::optional<Scaled>& scaled = weights.scaled[index];
    const auto dims = b_.CreateVector(t.dims());
    Offset<Vector<Offset<String>>> values;
    if (t.dtype() == DType::String) values = strings(t.strings());
    Offset<Vector<float>> factors;
    if (scaled) factors = b_.CreateVector(scaled->factors);
    return fb::CreateSegment(b_, static_cast<uint8_t>(t.dtype()), dims, weights.offsets[index],
                             weights.bytes(t, index).size(), hash_bytes(t.bytes()), values, factors,
                             scaled ? scaled->base : 0, scaled ? scaled->axis : 0,
                             !weights.packed[index].empty());
  }

  Offset<fb::Segment> joined(const HostTensor& form, const WeightParts& parts) {
    const auto dims = b_.CreateVector(form.dims());
    const auto segments = b_.CreateVector(parts.segments);
    return fb::CreateSegment(b_, static_cast<uint8_t>(form.dtype()), dims, 0, weight_bytes(form), 0,
                             0, 0, 0, parts.axis, false, segments);
  }

  Offset<fb::Slot> slot(const plan::Slot& s) {
    const auto name = string(s.name);
    const auto shape = exprs(s.shape);
    const auto processing = s.processing.empty() ? 0 : string(s.processing);
    const auto expected = s.expected.empty() ? 0 : b_.CreateVector(s.expected);
    return fb::CreateSlot(b_, name, static_cast<uint8_t>(s.dtype), shape,
                          static_cast<uint8_t>(s.image), processing, s.initial, expected);
  }

  Offset<fb::Interface> interface(const plan::Interface& io) {
    std::vector<Offset<fb::Symbol>> symbols;
    for (size_t i = 0; i < io.symbols.size(); ++i) {
      const Symbol& s = io.symbols[i];
      const SymbolSource source = i < io.sources.size() ? io.sources[i] : SymbolSource{};
      const bool derived = source.kind == SymbolSource::Kind::Derived;
      const auto value = derived ? exprs(std::array<Expr, 1>{source.value}) : 0;
      symbols.push_back(fb::CreateSymbol(b_, string(s.name), s.min, s.max, s.divisor,
                                         static_cast<uint8_t>(source.kind), source.index,
                                         source.axis, value));
    }
    const auto symbol_list = b_.CreateVector(symbols);
    const auto make_slot = [this](const plan::Slot& s) { return slot(s); };
    const auto inputs = tables<fb::Slot>(io.inputs, make_slot);
    const auto outputs = tables<fb::Slot>(io.outputs, make_slot);
    const auto guards = tables<fb::DimGuard>(io.guards, [this](const DimGuard& g) {
      const auto dims = exprs(std::array<Expr, 2>{g.a, g.b});
      const bool named = !g.a_is.empty() || !g.b_is.empty();
      const auto what = named ? strings({g.a_is, g.b_is}) : 0;
      return fb::CreateDimGuard(b_, dims, string(g.node), static_cast<uint8_t>(g.kind), what);
    });
    Tables<fb::StateSlot> states;
    if (!io.states.empty()) {
      states = tables<fb::StateSlot>(io.states, [this](const plan::StateSlot& s) {
        const auto name = string(s.name);
        const auto shape = exprs(s.shape);
        const auto after = s.grows() ? exprs(std::array<Expr, 1>{s.length_after}) : 0;
        return fb::CreateStateSlot(b_, name, static_cast<uint8_t>(s.dtype), shape, s.initial,
                                   s.axis, after);
      });
    }
    return fb::CreateInterface(b_, symbol_list, inputs, outputs, guards, states);
  }

  Offset<fb::Tensor> tensor(const HostTensor& t) {
    const auto dims = b_.CreateVector(t.dims());
    const auto bytes =
        b_.CreateVector(reinterpret_cast<const uint8_t*>(t.bytes().data()), t.bytes().size());
    Offset<Vector<Offset<String>>> values;
    if (t.dtype() == DType::String) values = strings(t.strings());
    return fb::CreateTensor(b_, static_cast<uint8_t>(t.dtype()), dims, bytes, values);
  }

  /// The calls of one node in several plans share their attributes; each is written once.
  Offset<fb::Attr> shared_attr(const std::string& name, const Attr& value) {
    const auto [at, is_new] = attrs_.try_emplace({name, &value});
    if (is_new) at->second = attr(name, value);
    return at->second;
  }

  Offset<fb::Attr> attr(const std::string& name, const Attr& value) {
    const auto name_offset = string(name);
    Offset<String> s;
    Offset<Vector<int64_t>> ints;
    Offset<Vector<float>> floats;
    Offset<Vector<Offset<String>>> list;
    Offset<fb::Tensor> data;
    if (const auto* v = std::get_if<std::string>(&value)) s = string(*v);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) ints = b_.CreateVector(*v);
    if (const auto* v = std::get_if<std::vector<Expr>>(&value)) ints = exprs(*v);
    if (const auto* v = std::get_if<std::vector<float>>(&value)) floats = b_.CreateVector(*v);
    if (const auto* v = std::get_if<std::vector<std::string>>(&value)) list = strings(*v);
    if (const auto* v = std::get_if<HostTensor>(&value)) data = tensor(*v);
    const auto* i = std::get_if<int64_t>(&value);
    const auto* f = std::get_if<float>(&value);
    return fb::CreateAttr(b_, name_offset, static_cast<uint8_t>(value.index()), i ? *i : 0,
                          f ? *f : 0.f, s, ints, floats, list, data);
  }

  static std::vector<int32_t> numbers(const std::vector<plan::BufferId>& ids) {
    std::vector<int32_t> out;
    out.reserve(ids.size());
    for (const plan::BufferId id : ids) out.push_back(id.number());
    return out;
  }

  Offset<fb::Launch> launch(const plan::Launch& l) {
    const auto grid = exprs(l.grid);
    const auto buffers = shared(numbers(l.buffers), ids_);
    const auto writes = shared(std::vector<uint8_t>(l.writes.begin(), l.writes.end()), flags_);
    const auto scalars = exprs(l.scalars);
    const auto nodes = strings(l.nodes);
    const auto group = string(l.group);
    const auto schedule = string(l.schedule);
    return fb::CreateLaunch(b_, l.kernel, grid, buffers, writes, scalars, nodes, group, schedule,
                            exprs(std::span(&l.iterations, 1)), l.checks, l.commits);
  }

  Offset<fb::HostCall> host_call(const plan::HostCall& c) {
    const auto op = string(c.op);
    const auto node = string(c.node);
    std::vector<Offset<fb::Attr>> attrs;
    for (const auto& [name, value] : c.attrs) attrs.push_back(shared_attr(name, value));
    const auto attr_list = b_.CreateVector(attrs);
    const auto inputs = b_.CreateVector(numbers(c.inputs));
    const auto outputs = b_.CreateVector(numbers(c.outputs));
    const auto reason = string(c.reason);
    const auto bodies = b_.CreateVector(c.bodies);
    Offset<Vector<uint32_t>> device_bodies;
    if (!c.device_bodies.empty()) device_bodies = b_.CreateVector(c.device_bodies);
    return fb::CreateHostCall(b_, op, node, c.opset, attr_list, inputs, outputs, reason, bodies,
                              device_bodies);
  }

  Offset<fb::Body> body(const plan::Body& b) {
    const auto name = string(b.name);
    const auto io = interface(b.io);
    const auto captures = b_.CreateVector(b.captures);
    const auto inherited = static_cast<uint32_t>(b.inherited_symbols);
    return fb::CreateBody(b_, name, io, captures, inherited, plan(b.plan));
  }

  Offset<fb::DeviceBody> device_body(const DeviceBody& b) {
    const auto name = string(b.name);
    const auto io = interface(b.io);
    const auto captures = b_.CreateVector(b.captures);
    const auto kernels = plan(b.plan);
    return fb::CreateDeviceBody(b_, name, io, captures, static_cast<uint32_t>(b.inherited_symbols),
                                kernels, probes(b.probes));
  }

  Offset<fb::SizedPlan> sized(const SizedPlan& s) {
    std::vector<fb::SymbolValues> sizes;
    sizes.reserve(s.sizes.size());
    for (const SymbolValues& v : s.sizes) sizes.emplace_back(v.symbol, v.min, v.max);
    const auto size_list = b_.CreateVectorOfStructs(sizes);
    const auto kernels = plan(s.plan);
    const auto checks = probes(s.probes);
    return fb::CreateSizedPlan(b_, size_list, kernels, checks, string(s.why));
  }

  Tables<fb::Probe> probes(const std::vector<plan::Probe>& list) {
    if (list.empty()) return {};
    return tables<fb::Probe>(list, [this](const plan::Probe& one) { return probe(one); });
  }

  Offset<fb::Step> step(const plan::Step& s) {
    Offset<fb::Launch> launch_offset;
    Offset<fb::HostCall> call_offset;
    if (const auto* l = std::get_if<plan::Launch>(&s.what)) {
      launch_offset = launch(*l);
    } else {
      call_offset = host_call(std::get<plan::HostCall>(s.what));
    }
    const auto after = b_.CreateVector(s.after);
    return fb::CreateStep(b_, launch_offset, call_offset, after, s.level);
  }

  Offset<fb::View> view(const TensorView& v) {
    const auto box = b_.CreateVector(v.box);
    const auto dims = b_.CreateVector(v.dims);
    const auto strides = b_.CreateVector(v.strides);
    return fb::CreateView(b_, v.buffer, v.element_bytes, static_cast<uint8_t>(v.swizzle), v.first,
                          box, dims, strides);
  }

  Offset<fb::Kernel> kernel(const plan::KernelCode& k) {
    const auto name = string(k.name);
    const auto workgroup = b_.CreateVector(k.workgroup.data(), k.workgroup.size());
    const uint32_t spirv = code_.add(CodeForm::Spirv, std::as_bytes(std::span(k.spirv)));
    const uint32_t cuda = code_.add(CodeForm::Cuda, std::as_bytes(std::span(k.cuda)));
    const uint32_t image = code_.add(CodeForm::Image, k.image);
    const fb::Usage usage(k.usage.registers, k.usage.spill_bytes, k.usage.shared_bytes,
                          k.usage.stack_bytes);
    Tables<fb::View> views;
    if (!k.views.empty())
      views = tables<fb::View>(k.views, [this](const TensorView& v) { return view(v); });
    return fb::CreateKernel(
        b_, name, workgroup, k.n_buffers, k.n_scalars, k.shared_bytes, k.subgroup_size, spirv, cuda,
        image, k.usage == plan::KernelCode::Usage{} ? nullptr : &usage, views, k.early);
  }

  Offset<fb::Samples> samples(const plan::Probe::Samples& s) {
    const auto fits = [](double v) {
      return !(std::fabs(v) > static_cast<double>(std::numeric_limits<float>::max())) &&
             (std::isnan(v) || static_cast<double>(static_cast<float>(v)) == v);
    };
    const auto at = b_.CreateVector(s.at);
    const auto exact = b_.CreateVector(s.exact);
    if (std::all_of(s.values.begin(), s.values.end(), fits) &&
        std::all_of(s.tolerance.begin(), s.tolerance.end(), fits)) {
      const auto values = b_.CreateVector(std::vector<float>(s.values.begin(), s.values.end()));
      const auto tolerance =
          b_.CreateVector(std::vector<float>(s.tolerance.begin(), s.tolerance.end()));
      return fb::CreateSamples(b_, s.buffer, at, values, tolerance, exact);
    }
    std::vector<double> wide = s.values;
    wide.insert(wide.end(), s.tolerance.begin(), s.tolerance.end());
    return fb::CreateSamples(b_, s.buffer, at, 0, 0, exact, b_.CreateVector(wide));
  }

  /// Variants for several architectures have equal probes; each distinct probe is written once.
  Offset<fb::Probe> probe(const plan::Probe& p) {
    for (const auto& [written, offset] : probes_) {
      if (*written == p) return offset;
    }
    const auto skipped = p.skipped.empty() ? Offset<String>() : string(p.skipped);
    const auto grid = b_.CreateVector(p.grid.data(), p.grid.size());
    const auto scalars = b_.CreateVector(p.scalars);
    const auto bytes = b_.CreateVector(p.bytes);
    const auto samples = tables<fb::Samples>(
        p.samples, [this](const plan::Probe::Samples& s) { return this->samples(s); });
    const auto offset =
        fb::CreateProbe(b_, skipped, p.step, grid, scalars, bytes, p.inputs, p.complete, samples);
    probes_.emplace_back(&p, offset);
    return offset;
  }

  Offset<fb::Packing> packing(const plan::Packing& p) {
    if (p.is_raw()) return {};
    std::vector<fb::PackingPart> parts;
    for (const auto& part : p.parts) parts.emplace_back(part.axis, part.size, part.step);
    const auto dims = b_.CreateVector(p.dims);
    return fb::CreatePacking(b_, dims, b_.CreateVectorOfStructs(parts), p.bits);
  }

  Offset<fb::Plan> plan(const plan::Plan& p) {
    const auto buffers = tables<fb::Buffer>(p.buffers, [this](const plan::Buffer& x) {
      const auto name = string(x.name);
      return fb::CreateBuffer(b_, name, static_cast<uint8_t>(x.kind), x.index,
                              static_cast<uint8_t>(x.dtype), exprs(x.shape));
    });
    const auto weights = tables<fb::PlanWeight>(p.weights, [this](const plan::Weight& w) {
      const auto name = string(w.name);
      return fb::CreatePlanWeight(b_, name, w.segment, packing(w.packing));
    });
    const auto kernels =
        tables<fb::Kernel>(p.kernels, [this](const plan::KernelCode& k) { return kernel(k); });
    const auto steps = tables<fb::Step>(p.steps, [this](const plan::Step& s) { return step(s); });
    std::vector<fb::Alias> aliases;
    for (const auto& a : p.aliases) aliases.emplace_back(a.from.number(), a.output.number());
    return fb::CreatePlan(b_, buffers, weights, kernels, steps, b_.CreateVectorOfStructs(aliases));
  }

  Offset<fb::Predicate> predicate(const Predicate& p) {
    const auto arch = string(p.cuda_arch);
    const auto matrices = tables<fb::Matrix>(p.matrices, [this](const MmaConfig& m) {
      const auto types = b_.CreateVector(std::vector{static_cast<uint8_t>(m.types.a),
                                                     static_cast<uint8_t>(m.types.b),
                                                     static_cast<uint8_t>(m.types.sum)});
      return fb::CreateMatrix(b_, m.m, m.n, m.k, types, static_cast<uint8_t>(m.scope),
                              m.invocations);
    });
    return fb::CreatePredicate(b_, static_cast<uint8_t>(p.api), p.needs_int64, p.needs_float16,
                               p.needs_storage8, p.needs_storage16, p.needs_subgroup_arithmetic,
                               p.needs_subgroup_shuffle, p.cpu_type, p.subgroup_size,
                               p.workgroup_invocations, p.shared_bytes, arch, p.slow_loads,
                               p.needs_subgroup_extended_types, matrices, p.needs_float64,
                               p.storage_buffers, p.needs_exact_halves);
  }

  Offset<fb::Explanation> explanation(const Explanation& e) {
    const auto unfused = tables<fb::Unfused>(e.unfused, [this](const Unfused& u) {
      const auto from = string(u.from);
      const auto to = string(u.to);
      return fb::CreateUnfused(b_, from, to, string(u.reason));
    });
    const auto kept = tables<fb::KeptNode>(e.kept, [this](const KeptNode& k) {
      const auto node = string(k.node);
      const auto op = string(k.op);
      return fb::CreateKeptNode(b_, node, op, string(k.reason));
    });
    return fb::CreateExplanation(b_, e.model_nodes, e.launches_unfused, unfused,
                                 static_cast<uint8_t>(e.precision), e.narrowed, kept,
                                 strings(e.notes));
  }

  flatbuffers::FlatBufferBuilder b_{1 << 16};
  CodeWriter code_;
  Shared<int64_t> numbers_;
  Shared<int32_t> ids_;
  Shared<uint8_t> flags_;
  std::vector<std::pair<const plan::Probe*, Offset<fb::Probe>>> probes_;
  std::map<std::pair<std::string, const Attr*>, Offset<fb::Attr>> attrs_;
};

/// An upper bound for the large parts of the metadata. It is checked because FlatBuffers aborts if
/// its limit is exceeded.
uint64_t bulk_bytes(const plan::Plan& p, std::set<const Attr*>& counted) {
  uint64_t n = 0;
  for (const auto& k : p.kernels) n += k.spirv.size() * 4 + k.cuda.size() + k.image.size();
  for (const auto& s : p.steps) {
    n += 1024;
    const auto* call = std::get_if<plan::HostCall>(&s.what);
    if (!call) continue;
    for (const auto& [name, value] : call->attrs) {
      if (!counted.insert(&value).second) continue;
      if (const auto* t = std::get_if<HostTensor>(&value)) n += t->bytes().size();
      if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) n += v->size() * 8;
      if (const auto* v = std::get_if<std::vector<float>>(&value)) n += v->size() * 4;
      if (const auto* v = std::get_if<std::vector<std::string>>(&value)) n += v->size() * 4;
    }
  }
  return n;
}

Status check_code_size(const plan::KernelCode& k) {
  const uint64_t most = std::max({k.spirv.size() * 4, k.cuda.size(), k.image.size()});
  if (most <= kMaxCodeBytes) return {};
  return unsupported("the code of kernel '" + k.name + "' has " + std::to_string(most) +
                     " bytes; the limit for one kernel is " + std::to_string(kMaxCodeBytes));
}

Status check_size(const Package& p) {
  std::set<const Attr*> counted;
  uint64_t bulk = bulk_bytes(p.host_plan, counted);
  const auto add = [&](const CompiledPlan& v) {
    for (const plan::KernelCode& k : v.plan.kernels) RP_TRY(check_code_size(k));
    bulk += bulk_bytes(v.plan, counted);
    return Status();
  };
  Status added;
  for (const Variant& v : p.variants) {
    for_each_plan(v, [&](const CompiledPlan& one) {
      if (added.ok()) added = add(one);
    });
  }
  RP_TRY(std::move(added));
  if (bulk > kMaxMetadata / 2) {
    return unsupported("kernels and attributes of " + std::to_string(bulk) +
                       " bytes do not fit a package's metadata; compile for fewer targets");
  }
  return {};
}

}  // namespace

Status write(const Package& p, const std::string& path) {
  const std::string where = "package '" + path + "'";
  if (p.stored_weights) {  // before the code, whose store has the name of the file
    const auto whole = with_weights({std::shared_ptr<void>(), &p});
    if (!whole.ok()) return whole.status().with_context(where);
    return write(**whole, path);
  }
  if (p.code) {  // the package was read; its code is compressed again
    RP_ASSIGN(const auto whole, unpack({std::shared_ptr<void>(), &p}));
    return write(*whole, path);
  }
  RP_TRY(verify(p).with_context(where));
  RP_TRY(check_size(p).with_context(where));
  const Placement weights = place(p);
  Serializer serializer;
  RP_TRY(serializer.package(p, weights).with_context(where));
  const std::span<const std::byte> metadata(
      reinterpret_cast<const std::byte*>(serializer.builder().GetBufferPointer()),
      serializer.builder().GetSize());
  Header header;
  header.metadata_bytes = metadata.size();
  header.metadata_hash = hash_bytes(metadata);
  header.weights_offset = align_up(sizeof(Header) + metadata.size(), kSegmentAlignment);
  header.file_bytes = header.weights_offset + weights.end;
  header.header_hash =
      hash_bytes({reinterpret_cast<const std::byte*>(&header), offsetof(Header, header_hash)});

  platform::OutputFile file(path);
  bool ok = file.open() && file.write(&header, sizeof header) &&
            file.write(metadata.data(), metadata.size()) && file.pad_to(header.weights_offset);
  for (size_t i = 0; ok && i < weights.order.size(); ++i) {
    const size_t w = weights.order[i];
    const auto data = weights.bytes(p.weights[w], w);
    ok = file.pad_to(header.weights_offset + weights.offsets[w]) &&
         file.write(data.data(), data.size());
  }
  if (!ok || !file.finish()) {
    return {Code::Io, where + " cannot be written: " + file.error()};
  }
  return {};
}

}  // namespace reprise::package
