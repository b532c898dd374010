#include <algorithm>
#include <cmath>

#include "apps/buckets/ranges.h"
#include "apps/buckets/trace.h"
#include "apps/reprise/command.h"
#include "runtime/base/timing.h"
#include "runtime/platform/file.h"

namespace reprise::app {

namespace {

struct BucketsOptions {
  CommonOptions common;
  std::string trace, model;
  std::string column, symbol;
  uint64_t memory = 0;  // bytes; 0: no limit
  int64_t count = 8;
  int points = 12;
  int runs = 5;
  double max_seconds = 60;
};

/// The symbol of --symbol, or the only one on which the sizes of inputs depend.
Result<SymbolId> size_symbol(const plan::Interface& io, const std::string& wanted) {
  std::vector<SymbolId> used;
  for (const plan::Slot& slot : io.inputs) {
    for (const Expr& dim : slot.shape) dim.collect_symbols(used);
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::vector<std::string> names;
  names.reserve(used.size());
  for (const SymbolId id : used) {
    const std::string& name = io.symbols[static_cast<size_t>(id)].name;
    if (name == wanted) return id;
    names.push_back(name);
  }
  if (names.empty()) {
    return invalid_input("the model has no dynamic sizes, so one plan serves it");
  }
  const std::string known = join(names, ", ");
  if (!wanted.empty()) {
    return invalid_input("no input has a dim '" + wanted + "'; the model's dynamic dims: " + known);
  }
  if (used.size() == 1) return used.front();
  return invalid_input("the model has several dynamic dims (" + known +
                       "): --symbol names the one that the trace is about");
}

/// Random inputs in which the symbol is `size`. Other symbols are 1, or the least they may be.
Result<InputSet> inputs_of_size(const plan::Interface& io, SymbolId symbol, int64_t size) {
  std::vector<int64_t> values;
  values.reserve(io.symbols.size());
  for (const Symbol& s : io.symbols) values.push_back(std::max<int64_t>(1, s.min));
  values[static_cast<size_t>(symbol)] = size;
  InputSources sources;
  for (const plan::Slot& slot : io.inputs) {
    std::vector<SymbolId> used;
    for (const Expr& dim : slot.shape) dim.collect_symbols(used);
    if (std::find(used.begin(), used.end(), symbol) == used.end()) continue;
    Dims dims;
    dims.reserve(slot.shape.size());
    for (const Expr& dim : slot.shape) {
      RP_ASSIGN(const int64_t value, dim.eval(values));
      dims.push_back(value);
    }
    sources.shapes.emplace(slot.name, std::move(dims));
  }
  std::vector<std::string> notes;
  return make_inputs(io, sources, notes);
}

/// `points` sizes from the smallest to the largest of the trace, in equal ratios.
std::vector<int64_t> measured_sizes(const Trace& trace, int points) {
  const auto first = static_cast<double>(trace.front().size);
  const auto last = static_cast<double>(trace.back().size);
  std::vector<int64_t> out;
  out.reserve(static_cast<size_t>(points));
  for (int i = 0; i < points; ++i) {
    const double share = static_cast<double>(i) / (points - 1);
    out.push_back(std::llround(first * std::pow(last / first, share)));
  }
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// The cost of runs of one size, in a session of its own, so that its memory is that of this size.
Result<SizeCost> measure_size(const Model& model, const OpenedDevice& device,
                              const BucketsOptions& o, SymbolId symbol, int64_t size) {
  RP_ASSIGN(const std::unique_ptr<Session> session, make_session(model, device, o.common));
  const uint64_t shared = session->stats().device_bytes;
  RP_ASSIGN(const InputSet inputs, inputs_of_size(session->io(), symbol, size));
  RP_TRY(run_session(*session, inputs).status());
  const std::vector<Binding> bindings = inputs.bindings();
  std::vector<double> times;
  times.reserve(static_cast<size_t>(o.runs));
  const double start = now_ms();
  for (int i = 0; i < o.runs; ++i) {
    const double before = now_ms();
    RP_TRY(session->run(bindings, {}, nullptr).status());
    times.push_back(now_ms() - before);
    if (now_ms() - start > 1000 * o.max_seconds / o.points) break;
  }
  const uint64_t bytes = session->stats().device_bytes;
  return SizeCost{size, median(times), static_cast<double>(bytes - std::min(bytes, shared))};
}

Result<CostCurve> measure_costs(const Model& model, const OpenedDevice& device,
                                const BucketsOptions& o, SymbolId symbol, const Trace& trace) {
  std::vector<SizeCost> points;
  ProgressLine progress;
  const std::vector<int64_t> sizes = measured_sizes(trace, o.points);
  points.reserve(sizes.size());
  for (const int64_t size : sizes) {
    progress.show("[" + std::to_string(points.size()) + "/" + std::to_string(sizes.size()) +
                  "] measuring size " + std::to_string(size));
    Result<SizeCost> cost = measure_size(model, device, o, symbol, size);
    if (!cost.ok()) return cost.status().with_context("size " + std::to_string(size));
    points.push_back(*cost);
  }
  progress.clear();
  return CostCurve(std::move(points));
}

Result<std::string> read_text(const std::string& path) {
  constexpr uint64_t kMost = uint64_t{1} << 30;
  RP_ASSIGN(const platform::InputFile file, platform::InputFile::open(path));
  if (file.size() > kMost) return invalid_input("'" + path + "' is larger than 1 GB");
  std::string text(file.size(), '\0');
  RP_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

std::string percent(double share) {
  return format_number(100 * share) + "%";
}

Json ranges_json(const Ranges& chosen, const CostCurve& costs) {
  Json list = Json::array();
  for (const SizeRange& r : chosen.ranges) {
    list.push_back({{"first", r.first},
                    {"last", r.last},
                    {"runs", r.runs},
                    {"ms", number(costs.ms(r.last))},
                    {"bytes", number(costs.bytes(r.last))}});
  }
  return list;
}

/// The fixed lists, each beside the best choice with as many ranges.
Result<Json> compare_with_lists(const Trace& trace, const CostCurve& costs, const Output& out) {
  Table table({"list", "plans", "ms a run", "waste", "padding", "ms with chosen ranges", "waste"});
  Json list = Json::array();
  for (const FixedList& fixed : fixed_lists(trace.back().size)) {
    const Ranges theirs = price(trace, fixed.sizes, costs);
    const auto count = static_cast<int64_t>(fixed.sizes.size());
    RP_ASSIGN(const Ranges ours, choose_ranges(trace, count, std::nullopt, costs));
    table.add({fixed.name, std::to_string(count), format_number(theirs.expected_ms),
               percent(theirs.waste), percent(theirs.padding), format_number(ours.expected_ms),
               percent(ours.waste)});
    list.push_back({{"list", fixed.name},
                    {"count", count},
                    {"waste", number(theirs.waste)},
                    {"padding", number(theirs.padding)},
                    {"expected_ms", number(theirs.expected_ms)},
                    {"bytes", number(theirs.bytes)},
                    {"chosen",
                     {{"count", ours.ranges.size()},
                      {"waste", number(ours.waste)},
                      {"padding", number(ours.padding)},
                      {"expected_ms", number(ours.expected_ms)},
                      {"bytes", number(ours.bytes)}}}});
  }
  out.text("\nFixed lists, and the best ranges of the same number:\n");
  out.table(table);
  return list;
}

Status show(const Trace& trace, const Ranges& chosen, const CostCurve& costs,
            const std::string& symbol, const BucketsOptions& o) {
  const Output out(o.common.json);
  Table table({"sizes", "runs", "ms a run", "memory"});
  std::string plans;
  for (const SizeRange& r : chosen.ranges) {
    const std::string sizes = std::to_string(r.first) + ".." + std::to_string(r.last);
    table.add({sizes, std::to_string(r.runs), format_number(costs.ms(r.last)),
               format_bytes(static_cast<int64_t>(costs.bytes(r.last)))});
    plans.append(" --plan ").append(symbol).append("=").append(sizes);
  }
  out.table(table);
  out.text("\n" + format_number(chosen.expected_ms) + " ms a run is expected; " +
           percent(chosen.waste) +
           " of that is waste: runs that cost as much as the largest size of "
           "their range. Compile with\n " +
           plans + "\n");
  RP_ASSIGN(Json fixed, compare_with_lists(trace, costs, out));
  return out.json({{"model", o.model},
                   {"symbol", symbol},
                   {"ranges", ranges_json(chosen, costs)},
                   {"expected_ms", number(chosen.expected_ms)},
                   {"waste", number(chosen.waste)},
                   {"padding", number(chosen.padding)},
                   {"bytes", number(chosen.bytes)},
                   {"fixed", std::move(fixed)}});
}

Status run_buckets(const BucketsOptions& o) {
  RP_ASSIGN(const std::string text, read_text(o.trace));
  RP_ASSIGN(const Trace trace, parse_trace(text, o.column, o.trace));
  RP_ASSIGN(OpenedDevice device, open_selected(o.common, {o.model}));
  RP_ASSIGN(const Model model, load_for(o.model, o.common, device));
  const plan::Interface& io = model.package->io;
  RP_ASSIGN(const SymbolId symbol, size_symbol(io, o.symbol));
  RP_ASSIGN(const CostCurve costs, measure_costs(model, device, o, symbol, trace));
  std::optional<double> memory;
  if (o.memory > 0) memory = static_cast<double>(o.memory);
  RP_ASSIGN(const Ranges chosen, choose_ranges(trace, o.count, memory, costs));
  return show(trace, chosen, costs, io.symbols[static_cast<size_t>(symbol)].name, o);
}

}  // namespace

void register_buckets(CLI::App& root, int& status) {
  auto o = std::make_shared<BucketsOptions>();
  CLI::App* command =
      root.add_subcommand("buckets", "Choose ranges of sizes for plans, from recorded sizes");
  command->add_option("TRACE", o->trace, "A CSV file with the sizes of runs, one per line")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("MODEL", o->model, "An .onnx or a compiled .rpk with a dynamic size")
      ->required();
  command->add_option("--count", o->count, "The most ranges")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--memory", o->memory,
                   "Memory for all plans together, beside the weights, such as 512MB")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--symbol", o->symbol, "The dynamic dim that the trace is about");
  command->add_option("--column", o->column, "The column with the sizes: its name or number");
  command->add_option("--points", o->points, "How many sizes are measured")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command->add_option("--runs", o->runs, "Measured runs of each size")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--max-seconds", o->max_seconds, "Stop measuring after about this time")
      ->check(at_least_zero())
      ->capture_default_str();
  add_common(*command, o->common);
  command->footer(
      "The model runs at some sizes of the trace; the costs of other sizes are interpolated. A "
      "run\n"
      "is taken to cost as much as the largest size of its range, and the ranges with the least\n"
      "expected cost are chosen. The table below them compares with the lists of sizes that\n"
      "engines record graphs for.\n"
      "Example: reprise buckets lengths.csv bert.onnx --count 6 --memory 256MB");
  command->callback([o, &status] {
    const Status result = run_buckets(*o);
    status = result.ok() ? kDone : report(result);
  });
}

}  // namespace reprise::app
