#include "runtime/package/decode.h"

#include <algorithm>
#include <map>
#include <memory>

#include "runtime/base/low_bit.h"
#include "runtime/package/code_store.h"
#include "runtime/package/header.h"
#include "runtime/package/metadata_reader.h"
#include "runtime/package/scaled.h"

namespace reprise::package {
namespace {

class Decoder : private MetadataReader {
 public:
  Decoder(const Bytes& metadata, Source source, const Header& header, const std::string& where)
      : MetadataReader(metadata.bytes.size()),
        where_(where),
        owner_(metadata.owner),
        version_(header.version),
        weights_offset_(header.weights_offset),
        weights_bytes_(source.size() - header.weights_offset),
        stored_(std::make_shared<StoredWeights>(std::move(source))) {}

  Status package(const fb::Package& from, Package& to) {
    RP_TRY(string(from.model_name(), to.model_name));
    RP_TRY(string(from.producer(), to.producer));
    RP_TRY(properties(from.metadata(), to.metadata));
    if (!from.io() || !from.host_plan()) return malformed("its interface or host plan is missing");
    RP_TRY(interface(*from.io(), to.io));
    RP_TRY(segments(from.segments(), to));
    RP_TRY(code(from, to));
    RP_TRY(plan(*from.host_plan(), to.host_plan).with_context("host plan"));
    const auto one = [this](const fb::Variant& f, Variant& t) {
      RP_TRY(string(f.name(), t.name));
      return variant(f, t).with_context("variant '" + t.name + "'");
    };
    RP_TRY(list(from.variants(), to.variants, one));
    RP_TRY(list(from.bodies(), to.bodies,
                [this](const fb::Body& f, plan::Body& t) { return body(f, t); }));
    to.stored_weights = stored_;
    return from.explanation() ? explanation(*from.explanation(), to.explanation) : Status();
  }

 private:
  Status code(const fb::Package& from, Package& to) {
    const auto piece = [](const fb::Code& f, CompressedCode& t) {
      if (!f.data()) return malformed("code has no bytes");
      const auto* data = reinterpret_cast<const std::byte*>(f.data()->data());
      t = {static_cast<CodeForm>(f.form()), f.size(), f.hash(), {data, f.data()->size()}};
      return Status();
    };
    std::vector<CompressedCode> all, dictionaries;
    RP_TRY(list(from.code(), all, piece));
    RP_TRY(list(from.dictionaries(), dictionaries, piece));
    auto store =
        std::make_shared<CodeStore>(where_, std::move(all), std::move(dictionaries), owner_);
    RP_TRY(store->check());
    to.code = std::move(store);
    return {};
  }

  Status explanation(const fb::Explanation& from, Explanation& to) {
    to.model_nodes = from.model_nodes();
    to.launches_unfused = from.launches_unfused();
    to.narrowed = from.narrowed();
    to.precision = static_cast<DType>(from.precision());
    if (to.precision != DType::F32 && to.precision != DType::F16 && to.precision != DType::BF16)
      return malformed("precision " + std::to_string(from.precision()) + " does not exist");
    const auto edge = [this](const fb::Unfused& f, Unfused& t) {
      RP_TRY(string(f.from(), t.from));
      RP_TRY(string(f.to(), t.to));
      return string(f.reason(), t.reason);
    };
    RP_TRY(list(from.unfused(), to.unfused, edge));
    RP_TRY(strings(from.notes(), to.notes));
    return list(from.kept(), to.kept, [this](const fb::KeptNode& f, KeptNode& t) {
      RP_TRY(string(f.node(), t.node));
      RP_TRY(string(f.op(), t.op));
      return string(f.reason(), t.reason);
    });
  }

  Status derived_value(const fb::Symbol& from, SymbolSource& to) {
    std::vector<Expr> value;
    RP_TRY(exprs(from.source_value(), value));
    if (value.size() > 1) return malformed("a symbol is derived from several expressions");
    if (!value.empty()) to.value = value[0];
    return {};
  }

  Status interface(const fb::Interface& from, plan::Interface& to) {
    RP_TRY(list(from.symbols(), to.symbols, [&](const fb::Symbol& f, Symbol& t) {
      t.min = f.min();
      t.max = f.max();
      t.divisor = f.divisor();
      SymbolSource source;
      source.kind = static_cast<SymbolSource::Kind>(f.source_kind());
      source.index = f.source_index();
      source.axis = f.source_axis();
      Status derived = derived_value(f, source);
      to.sources.push_back(std::move(source));
      if (!derived.ok()) return derived;
      return string(f.name(), t.name);
    }));
    const auto slot = [this](const auto& f, plan::Slot& t) {
      t.dtype = static_cast<DType>(f.dtype());
      RP_TRY(string(f.name(), t.name));
      if constexpr (requires { f.image(); }) RP_TRY(image(f, t));
      if constexpr (requires { f.expected(); }) RP_TRY(numbers(f.expected(), t.expected));
      t.initial = f.initial();
      return exprs(f.shape(), t.shape);
    };
    RP_TRY(list(from.inputs(), to.inputs, slot));
    RP_TRY(list(from.outputs(), to.outputs, slot));
    RP_TRY(list(from.states(), to.states, [&](const fb::StateSlot& f, plan::StateSlot& t) {
      std::vector<Expr> after;
      RP_TRY(exprs(f.length_after(), after));
      if (after.size() != (f.axis() < 0 ? 0 : 1))
        return malformed("a state that grows has no length after a run");
      t.axis = f.axis() < 0 ? -1 : f.axis();
      if (t.grows()) t.length_after = after[0];
      return slot(f, t);
    }));
    return list(from.guards(), to.guards, [this](const fb::DimGuard& f, DimGuard& t) {
      std::vector<Expr> dims;
      RP_TRY(exprs(f.dims(), dims));
      if (dims.size() != 2) return malformed("a guard does not compare two dimensions");
      t.a = dims[0];
      t.b = dims[1];
      t.kind = static_cast<DimGuard::Kind>(f.kind());
      std::vector<std::string> what;
      RP_TRY(strings(f.what(), what));
      if (what.size() == 2) {
        t.a_is = std::move(what[0]);
        t.b_is = std::move(what[1]);
      }
      return string(f.node(), t.node);
    });
  }

  /// Checks dims and dtype of a stored tensor; returns the number of elements.
  template <typename T>
  Result<int64_t> check_tensor(const T& from, std::vector<int64_t>& dims, uint64_t bytes,
                               bool packed = false) {
    const auto dtype = static_cast<DType>(from.dtype());
    if (!is_dtype(from.dtype()) || is_container(dtype)) {
      return malformed("element type " + std::to_string(from.dtype()) + " does not exist");
    }
    RP_TRY(numbers(from.dims(), dims));
    RP_ASSIGN(const int64_t count, checked_element_count(dims, dtype));
    const auto elements = static_cast<uint64_t>(count);
    if (packed && !shares_bytes(dtype)) return malformed(describe(dtype, dims) + " is not packed");
    if ((packed ? packed_size(dtype, elements) : elements * size_of(dtype)) != bytes) {
      return malformed(describe(dtype, dims) + " has " + std::to_string(bytes) + " bytes");
    }
    const uint64_t strings = from.strings() ? from.strings()->size() : 0;
    if (dtype == DType::String && static_cast<uint64_t>(count) != strings) {
      return malformed(describe(dtype, dims) + " has " + std::to_string(strings) + " strings");
    }
    return count;
  }

  Status segment(const fb::Segment& from, HostTensor& to) {
    stored_->add({weights_offset_ + from.offset(), from.size(), {}, from.packed()});
    std::vector<int64_t> dims;
    RP_ASSIGN(const int64_t count, check_tensor(from, dims, from.size(), from.packed()));
    const auto dtype = static_cast<DType>(from.dtype());
    if (dtype == DType::String) return string_tensor(from.strings(), std::move(dims), to);
    to = HostTensor::borrow(dtype, std::move(dims), {}, nullptr);
    if (from.factors() || has_parts(from)) return {};
    const uint64_t alignment = from.size() >= kLargeWeight ? kSegmentAlignment : kWeightAlignment;
    if (from.offset() > weights_bytes_ || from.size() > weights_bytes_ - from.offset()) {
      return malformed(describe(dtype, to.dims()) + " is outside the file");
    }
    if (count > 0 && from.offset() % alignment != 0) return malformed("a weight is not aligned");
    return {};
  }

  static bool has_parts(const fb::Segment& s) { return s.parts() && s.parts()->size() > 0; }

  /// Those of the last weight of the package.
  Status parts(const fb::Segment& from, Package& to) {
    if (version_ < kPartsVersion)
      return malformed("version " + std::to_string(version_) + " of the format has no parts");
    if (from.factors() || from.packed() || from.strings() || from.offset() != 0 || from.hash() != 0)
      return malformed("it has parts and bytes");
    WeightParts& parts = to.parts[static_cast<uint32_t>(to.weight_hashes.size() - 1)];
    parts.axis = from.axis();
    return numbers(from.parts(), parts.segments);
  }

  Status segments(const Table<fb::Segment>* from, Package& to) {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    const auto one = [&](const fb::Segment& f, HostTensor& t) {
      const std::string where = "weight " + std::to_string(to.weight_hashes.size());
      to.weight_hashes.push_back(f.hash());
      RP_TRY(segment(f, t).with_context(where));
      if (has_parts(f)) return parts(f, to).with_context(where);
      if (f.size() > 0 && !f.factors()) ranges.emplace_back(f.offset(), f.size());
      return Status();
    };
    RP_TRY(list(from, to.weights, one));
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].first - ranges[i - 1].first < ranges[i - 1].second) {
        return malformed("two weights overlap");
      }
    }
    for (uint32_t i = 0; from && i < from->size(); ++i) {
      if (from->Get(i)->factors())
        RP_TRY(scaled(*from, i, to).with_context("weight " + std::to_string(i)));
    }
    return {};
  }

  Status scaled(const Table<fb::Segment>& all, uint32_t index, Package& to) {
    const fb::Segment& from = *all.Get(index);
    if (from.base() >= all.size() || all.Get(from.base())->factors() ||
        has_parts(*all.Get(from.base())))
      return malformed("weight " + std::to_string(from.base()) + " cannot be its base");
    const HostTensor& base = to.weights[from.base()];
    std::vector<int64_t> dims;
    RP_TRY(numbers(from.dims(), dims));
    std::vector<float> factors;
    RP_TRY(numbers(from.factors(), factors));
    if (static_cast<DType>(from.dtype()) != DType::F32 || base.dtype() != DType::F32 ||
        base.dims() != dims || from.axis() >= dims.size() ||
        factors.size() != static_cast<uint64_t>(dims[from.axis()]))
      return malformed("its factors do not fit " + describe(base.dtype(), base.dims()));
    scaled_bytes_ += weight_bytes(base);
    if (scaled_bytes_ > weights_bytes_)
      return malformed("its products take more memory than the weights in the file");
    stored_->set_scaled(index, {from.base(), from.axis(), std::move(factors)});
    return {};
  }

  /// Several plans may refer to one attribute, which is decoded once.
  Status attr(const fb::Attr& from, AttrMap& to) {
    std::string name;
    RP_TRY(string(from.name(), name));
    std::shared_ptr<const Attr>& known = attrs_[&from];
    if (!known) {
      Attr value;
      RP_TRY(attr_value(from, value).with_context("attribute '" + name + "'"));
      known = std::make_shared<const Attr>(std::move(value));
    }
    if (to.has(name)) return malformed("attribute '" + name + "' occurs twice");
    to.share(std::move(name), known);
    return {};
  }

  Status attr_value(const fb::Attr& from, Attr& to) {
    switch (from.kind()) {
      case 0:
        to.emplace<int64_t>(from.i());
        return {};
      case 1:
        to.emplace<float>(from.f());
        return {};
      case 2:
        return string(from.s(), to.emplace<std::string>());
      case 3:
        return numbers(from.ints(), to.emplace<std::vector<int64_t>>());
      case 4:
        return numbers(from.floats(), to.emplace<std::vector<float>>());
      case 5:
        return strings(from.strings(), to.emplace<std::vector<std::string>>());
      case 6:
        return from.tensor() ? tensor(*from.tensor(), to.emplace<HostTensor>())
                             : malformed("its tensor is missing");
      case 7:
        return exprs(from.ints(), to.emplace<std::vector<Expr>>());
      default:
        return malformed("kind " + std::to_string(from.kind()) + " does not exist");
    }
  }
  static_assert(std::variant_size_v<Attr> == 8,
                "attr_value() must handle every alternative of Attr");

  Status tensor(const fb::Tensor& from, HostTensor& to) {
    const uint64_t bytes = from.bytes() ? from.bytes()->size() : 0;
    RP_TRY(spend(bytes));
    std::vector<int64_t> dims;
    RP_TRY(check_tensor(from, dims, bytes).status());
    const auto dtype = static_cast<DType>(from.dtype());
    if (dtype == DType::String) return string_tensor(from.strings(), std::move(dims), to);
    to = HostTensor(dtype, std::move(dims));
    if (bytes > 0) std::memcpy(to.mutable_bytes().data(), from.bytes()->data(), bytes);
    return {};
  }

  Status ids(const flatbuffers::Vector<int32_t>* from, std::vector<plan::BufferId>& to) {
    std::vector<int32_t> list;
    RP_TRY(numbers(from, list));
    to.reserve(list.size());
    for (const int32_t n : list) to.emplace_back(n);
    return {};
  }

  Status launch(const fb::Launch& from, plan::Launch& to) {
    to.kernel = from.kernel();
    std::vector<Expr> grid, iterations;
    RP_TRY(exprs(from.grid(), grid));
    if (grid.size() != to.grid.size()) return malformed("a grid does not have three sizes");
    std::copy(grid.begin(), grid.end(), to.grid.begin());
    RP_TRY(ids(from.buffers(), to.buffers));
    RP_TRY(flags(from.writes(), to.writes));
    RP_TRY(exprs(from.scalars(), to.scalars));
    RP_TRY(strings(from.nodes(), to.nodes));
    RP_TRY(string(from.group(), to.group));
    RP_TRY(exprs(from.iterations(), iterations));
    if (iterations.size() != 1) return malformed("a launch needs exactly one number of iterations");
    to.iterations = iterations[0];
    to.checks = from.checks(), to.commits = from.commits();
    return string(from.schedule(), to.schedule);
  }

  Status host_call(const fb::HostCall& from, plan::HostCall& to) {
    RP_TRY(string(from.op(), to.op));
    RP_TRY(string(from.node(), to.node));
    to.opset = from.opset();
    if (from.attrs()) {
      for (const fb::Attr* a : *from.attrs()) {
        if (!a) return malformed("an attribute is missing");
        RP_TRY(attr(*a, to.attrs).with_context("node '" + to.node + "'"));
      }
    }
    RP_TRY(ids(from.inputs(), to.inputs));
    RP_TRY(ids(from.outputs(), to.outputs));
    RP_TRY(numbers(from.bodies(), to.bodies));
    RP_TRY(numbers(from.device_bodies(), to.device_bodies));
    return string(from.reason(), to.reason);
  }

  Status step(const fb::Step& from, plan::Step& to) {
    if ((from.launch() != nullptr) == (from.call() != nullptr)) {
      return malformed("a step is neither a launch nor a host call");
    }
    to.level = from.level();
    RP_TRY(numbers(from.after(), to.after));
    if (from.launch()) return launch(*from.launch(), to.what.emplace<plan::Launch>());
    return host_call(*from.call(), to.what.emplace<plan::HostCall>());
  }

  Status kernel(const fb::Kernel& from, plan::KernelCode& to) {
    RP_TRY(string(from.name(), to.name));
    std::vector<uint32_t> workgroup;
    RP_TRY(numbers(from.workgroup(), workgroup));
    if (workgroup.size() != to.workgroup.size())
      return malformed("a workgroup does not have three sizes");
    std::copy(workgroup.begin(), workgroup.end(), to.workgroup.begin());
    to.n_buffers = from.n_buffers();
    to.n_scalars = from.n_scalars();
    to.shared_bytes = from.shared_bytes();
    to.subgroup_size = from.subgroup_size();
    to.early = from.early();
    if (const fb::Usage* u = from.usage())
      to.usage = {u->registers(), u->spill_bytes(), u->shared_bytes(), u->stack_bytes()};
    return list(from.views(), to.views, [this](const fb::View& f, TensorView& t) {
      t.buffer = f.buffer(), t.element_bytes = f.element_bytes();
      t.swizzle = static_cast<Swizzle>(f.swizzle());
      t.first = f.first();
      RP_TRY(numbers(f.box(), t.box));
      RP_TRY(numbers(f.dims(), t.dims));
      return numbers(f.strides(), t.strides);
    });
  }

  Status reals(const flatbuffers::Vector<float>* from, std::vector<double>& to) {
    std::vector<float> narrow;
    RP_TRY(numbers(from, narrow));
    to.assign(narrow.begin(), narrow.end());
    return {};
  }

  Status probe(const fb::Probe& from, plan::Probe& to) {
    RP_TRY(string(from.skipped(), to.skipped));
    to.step = from.step();
    std::vector<uint32_t> grid;
    RP_TRY(numbers(from.grid(), grid));
    if (grid.size() != to.grid.size()) return malformed("a probe's grid does not have three sizes");
    std::copy(grid.begin(), grid.end(), to.grid.begin());
    RP_TRY(numbers(from.scalars(), to.scalars));
    RP_TRY(numbers(from.bytes(), to.bytes));
    to.inputs = from.inputs();
    to.complete = from.complete();
    const auto samples = [this](const fb::Samples& f, plan::Probe::Samples& t) {
      t.buffer = f.buffer();
      RP_TRY(numbers(f.at(), t.at));
      RP_TRY(numbers(f.exact(), t.exact));
      std::vector<double> wide;
      RP_TRY(numbers(f.wide(), wide));
      if (wide.empty()) {
        RP_TRY(reals(f.values(), t.values));
        return reals(f.tolerance(), t.tolerance);
      }
      const auto middle = wide.begin() + static_cast<std::ptrdiff_t>(wide.size() / 2);
      t.values.assign(wide.begin(), middle);
      t.tolerance.assign(middle, wide.end());
      return Status();
    };
    return list(from.samples(), to.samples, samples);
  }

  Status packing(const fb::Packing& from, plan::Packing& to) {
    RP_TRY(numbers(from.dims(), to.dims));
    to.bits = from.bits();
    if (!from.parts()) return {};
    RP_TRY(spend(uint64_t{from.parts()->size()} * sizeof(plan::Packing::Part)));
    for (const fb::PackingPart* part : *from.parts())
      to.parts.push_back({part->axis(), part->size(), part->step()});
    return {};
  }

  Status plan(const fb::Plan& from, plan::Plan& to) {
    const auto buffer = [this](const fb::Buffer& f, plan::Buffer& t) {
      t.kind = static_cast<plan::BufferKind>(f.kind());
      t.index = f.index();
      t.dtype = static_cast<DType>(f.dtype());
      RP_TRY(string(f.name(), t.name));
      return exprs(f.shape(), t.shape);
    };
    RP_TRY(list(from.buffers(), to.buffers, buffer));
    RP_TRY(list(from.weights(), to.weights, [this](const fb::PlanWeight& f, plan::Weight& t) {
      t.segment = f.segment();
      if (f.packing()) RP_TRY(packing(*f.packing(), t.packing));
      return string(f.name(), t.name);
    }));
    RP_TRY(list(from.kernels(), to.kernels,
                [this](const fb::Kernel& f, plan::KernelCode& t) { return kernel(f, t); }));
    RP_TRY(list(from.steps(), to.steps,
                [this](const fb::Step& f, plan::Step& t) { return step(f, t); }));
    if (!from.aliases()) return {};
    RP_TRY(spend(uint64_t{from.aliases()->size()} * sizeof(plan::Plan::Alias)));
    for (const fb::Alias* a : *from.aliases())
      to.aliases.push_back({plan::BufferId(a->from()), plan::BufferId(a->output())});
    return {};
  }

  Status body(const fb::Body& from, plan::Body& to) {
    RP_TRY(string(from.name(), to.name));
    if (!from.io() || !from.plan()) return malformed("the interface or plan of a body is missing");
    RP_TRY(interface(*from.io(), to.io));
    RP_TRY(numbers(from.captures(), to.captures));
    to.inherited_symbols = from.inherited_symbols();
    return plan(*from.plan(), to.plan).with_context(to.name);
  }

  static Status matrix(const fb::Matrix& from, MmaConfig& to) {
    const auto* types = from.types();
    if (!types || types->size() != 3 || !std::ranges::all_of(*types, is_mma_type) ||
        from.scope() > static_cast<uint8_t>(MmaScope::Workgroup) || from.m() == 0 ||
        from.n() == 0 || from.k() == 0)
      return malformed("it needs matrices that do not exist");
    const auto type = [&](uint32_t i) { return static_cast<MmaType>(types->Get(i)); };
    to = {from.m(),
          from.n(),
          from.k(),
          {type(0), type(1), type(2)},
          static_cast<MmaScope>(from.scope()),
          from.invocations()};
    return {};
  }

  Status variant(const fb::Variant& from, Variant& to) {
    if (!from.predicate() || !from.plan()) return malformed("its predicate or plan is missing");
    const fb::Predicate& p = *from.predicate();
    if (p.api() > static_cast<uint8_t>(Api::Cuda)) {
      return malformed("API " + std::to_string(p.api()) + " does not exist");
    }
    to.predicate.api = static_cast<Api>(p.api());
    to.predicate.needs_int64 = p.needs_int64();
    to.predicate.needs_float16 = p.needs_float16();
    to.predicate.needs_exact_halves = p.needs_exact_halves();
    to.predicate.needs_float64 = p.needs_float64();
    to.predicate.needs_storage8 = p.needs_storage8();
    to.predicate.needs_storage16 = p.needs_storage16();
    to.predicate.needs_subgroup_arithmetic = p.needs_subgroup_arithmetic();
    to.predicate.needs_subgroup_shuffle = p.needs_subgroup_shuffle();
    to.predicate.needs_subgroup_extended_types = p.needs_subgroup_extended_types();
    to.predicate.cpu_type = p.cpu_type();
    to.predicate.slow_loads = p.slow_loads();
    to.predicate.subgroup_size = p.subgroup_size();
    RP_TRY(list(p.matrices(), to.predicate.matrices,
                [](const fb::Matrix& f, MmaConfig& t) { return matrix(f, t); }));
    to.predicate.workgroup_invocations = p.workgroup_invocations();
    to.predicate.shared_bytes = p.shared_bytes();
    to.predicate.storage_buffers = p.storage_buffers();
    RP_TRY(string(p.cuda_arch(), to.predicate.cuda_arch));
    RP_TRY(compiled_plan(from, to));
    RP_TRY(list(from.plans(), to.plans, [&](const fb::SizedPlan& f, SizedPlan& t) {
      t.name = to.name;
      t.predicate = to.predicate;
      return sized_plan(f, t).with_context("plan " + std::to_string(&t - to.plans.data() + 1));
    }));
    return list(from.bodies(), to.bodies, [&](const fb::DeviceBody& f, DeviceBody& t) {
      t.predicate = to.predicate;
      RP_TRY(string(f.name(), t.name));
      return device_body(f, t).with_context(t.name);
    });
  }

  Status sized_plan(const fb::SizedPlan& from, SizedPlan& to) {
    if (!from.sizes() || !from.plan()) return malformed("its sizes or its plan are missing");
    RP_TRY(spend(uint64_t{from.sizes()->size()} * sizeof(SymbolValues)));
    for (const fb::SymbolValues* s : *from.sizes())
      to.sizes.push_back({s->symbol(), s->min(), s->max()});
    RP_TRY(string(from.why(), to.why));
    return compiled_plan(from, to);
  }

  Status device_body(const fb::DeviceBody& from, DeviceBody& to) {
    if (!from.io() || !from.plan()) return malformed("the interface or plan of a body is missing");
    RP_TRY(interface(*from.io(), to.io));
    RP_TRY(numbers(from.captures(), to.captures));
    to.inherited_symbols = from.inherited_symbols();
    return compiled_plan(from, to);
  }

  /// The plan, the probes and the indices of the code of a variant or of a body.
  template <typename From>
  Status compiled_plan(const From& from, CompiledPlan& to) {
    RP_TRY(list(from.probes(), to.probes,
                [this](const fb::Probe& f, plan::Probe& t) { return probe(f, t); }));
    if (from.plan()->kernels()) {
      RP_TRY(list(from.plan()->kernels(), to.stored, [](const fb::Kernel& f, StoredCode& t) {
        t = {f.spirv(), f.cuda(), f.image()};
        return Status();
      }));
    }
    return plan(*from.plan(), to.plan);
  }

  const std::string& where_;
  uint64_t scaled_bytes_ = 0;
  std::map<const fb::Attr*, std::shared_ptr<const Attr>> attrs_;
  std::shared_ptr<const void> owner_;
  uint32_t version_;
  uint64_t weights_offset_, weights_bytes_;
  std::shared_ptr<StoredWeights> stored_;
};

}  // namespace

Result<std::shared_ptr<const Package>> decode(const Bytes& metadata, Source source,
                                              const Header& header, const std::string& where) {
  constexpr unsigned kMaxDepth = 16;
  const auto* data = reinterpret_cast<const uint8_t*>(metadata.bytes.data());
  flatbuffers::Verifier verifier(data, metadata.bytes.size(), kMaxDepth);
  if (!fb::VerifyPackageBuffer(verifier)) return malformed("its metadata is malformed");
  auto package = std::make_shared<Package>();
  Decoder decoder(metadata, std::move(source), header, where);
  RP_TRY(decoder.package(*fb::GetPackage(data), *package));
  RP_TRY(verify(*package));
  return std::shared_ptr<const Package>(std::move(package));
}

}  // namespace reprise::package
