// Kernel template: GEMM on matrix units that read their operands from shared memory, 16-bit floats
// and fp32 sums, for devices that divide a workgroup into roles (Hopper).
//
// A workgroup computes tiles of C, one after another. One of its roles copies boxes of A and B
// (TMA) to the stages of a ring in shared memory, the other multiplies them (wgmma), so that
// neither waits for what the other has to do:
//   copy:     await that stage s is empty, begin the copies of the next 64 values of k, arrive
//   multiply: await that stage s is full, multiply it, await the products of the stage before, and
//             tell that this one is empty
// A team of four subgroups multiplies 64 rows. At the end of a tile it brings its sums to shared
// memory, some columns after another, and applies the epilogue to vectors. Meanwhile the ring fills
// with the next tile.
//
// Results go to shared memory once more, and leave it as boxes (TMA) while the next columns are
// computed, if the rows of C are multiples of 16 bytes apart; else invocations store them.
//
// Copies give zeros outside of the operands, so M, N and K may have any size: only the strides of
// operands that are copied must be multiples of 16 bytes. A constant B is packed in tiles of 64
// columns.
//
// For other operands (converted_stages.h) the role that copies is a whole team, with registers of
// its own: its invocations load and convert the next 64 values of k of one operand before they
// await the stage, and each of its subgroups copies a quarter of the other operand.
//
// A cluster of workgroups may compute a tile together (TileShape):
// - Each has some rows of it. They need the same B, of which each copies a part to all of them.
//   So a stage is empty once the teams of all workgroups have told so, and full once all have
//   copied.
// - Each sums a part of K. Their sums stay in shared memory, where each workgroup reads some
//   columns of all of them, adds them in the order of ranks, and stores these results.
// Nobody ends before the others no longer access its shared memory: a barrier of the cluster.
//
// Shared memory: the stages, and sums and results of each team (team_bytes()).
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "codegen/target/device_costs.h"
#include "shaders/converted_stages.h"

namespace reprise::shaders {

using kernel::Builtin;
using kernel::MatrixUse;
using kernel::Swizzle;
using kernel::TeamOperand;
using kernel::TeamOperands;
using kernel::Ty;
using team_stages::kGroup;
using team_stages::kLine;
using team_stages::kStep;
using team_stages::kTeam;

namespace {

constexpr int kTeamRows = static_cast<int>(TeamOperands::kRows);
constexpr int kDepth = 16;        // values of k that are multiplied at once
constexpr uint32_t kAlign = 512;  // elements between repeated patterns
constexpr int kCopiedUnit = 8;    // elements of 16 bits, of which GpuCosts::copy is the price
// A workgroup takes nearly all shared memory of a multiprocessor, so there is one for each of the
// 132 of an H100 (SXM) or H200. A device with fewer runs the rest of them later.
constexpr int kGroups = 132;
// Rows of tiles of a band: kGroups tiles of 128 x 256 then read 16 * 128 rows and about as many
// columns.
constexpr int kBand = 16;
constexpr int kPart = 32;  // columns of a sum
// Of the results of a team: two parts of 16-bit numbers, or one of 32 bits.
constexpr int kResultBytes = 4 * kTeamRows * kPart;
constexpr int kSumLine = kPart + 4;  // against conflicts of banks
constexpr uint32_t kCopyRegisters = 40, kMultiplyRegisters = 232;
/// What teams of a workgroup have together, counted in invocations: each begins with a multiple
/// of 8.
constexpr uint32_t registers_of(uint32_t teams) {
  constexpr uint32_t kAll = 65536;
  return kAll / (teams * kTeam) / 8 * 8 * teams;
}
/// Of an invocation that multiplies, if others convert: its sums, and what a tile's end needs.
constexpr uint32_t converting_registers(int columns) {
  return columns > 128 ? 184 : 152;
}
// What matrix units do for teams, as a multiple of what they do for subgroups: those reach 62 to
// 65% of the peak on H800 (arXiv 2402.13499).
constexpr double kTeamSpeed = 1.5;
// Estimates, as nothing was measured: two barriers of a cluster; two signals, a fence of all memory
// for each, and reads of other workgroups' sums.
constexpr double kClusterWaits = 2, kExchangeWaits = 6;
// Instructions for each HGMMA, of teams that give stages back to two workgroups, as a multiple of
// those of other teams: 27.5 and 25.2 in SASS.
constexpr double kSharedRingWork = 27.5 / 25.2;
// No device has compared tiles of clusters. They must promise to be so many times faster to be
// preferred; autotuning measures them in any case.
constexpr double kClusterGain = 1.1;

struct HopperShape {
  int teams, columns, stages;
};
constexpr HopperShape kHopperShapes[] = {
    {2, 256, 4}, {2, 128, 6}, {2, 64, 8}, {1, 128, 8}, {1, 64, 8}};

/// Rows of a tile that one workgroup has.
int own_rows(const Tile& t) {
  return t.rows / t.cluster_rows;
}

/// Parts of a team's sums that shared memory has room for.
int staged_parts(const Tile& t) {
  return t.cluster_parts == 1 ? 1 : t.columns / kPart;
}

int team_bytes(const Tile& t) {
  constexpr int kRest = 1024;  // signals, alignment
  const int rows = own_rows(t);
  const int stage = 2 * kStep * (rows + t.columns);
  return t.stages * stage + staged_parts(t) * 4 * rows * kSumLine +
         rows / kTeamRows * kResultBytes + kRest;
}

/// Of the launch that sums each part of K.
double team_time(const GemmSize& size, const Tile& t, int splits) {
  const GpuCosts& gpu = kGpuCosts;
  const int rows = own_rows(t);
  const double threads = static_cast<double>(rows) / kTeamRows * kTeam;
  const double units = tiles_of(size, t.rows, t.columns) * splits;
  // A box that several workgroups get leaves the cache once.
  const double copied = rows + static_cast<double>(t.columns) / t.cluster_rows;
  const double copies = copied * kStep / kCopiedUnit / threads;
  const double multiply = rows * t.columns * kStep / threads / gpu.matrix_speed / kTeamSpeed *
                          (t.cluster_rows == 1 ? 1 : kSharedRingWork);
  const double loads =
      (t.converted.a ? rows * size.a_loads : 0) + (t.converted.b ? t.columns * size.b_loads : 0);
  // One role does this while others multiply.
  const double convert = gpu.load * loads * kStep / 4 / kTeam;
  const double work = std::max(multiply + gpu.copy * copies, convert);
  // Both ends together are as long as so many steps of 16 values of k. The loads before the first
  // step are hidden behind the tile before, the stores at the end are not.
  const double end = gpu.ends * kDepth / kStep / 2;
  const double rounds = std::ceil(units / t.groups);
  const double steps = end + rounds * (std::ceil(size.k / kStep / splits / t.cluster_parts) + end);
  const double latency = loads > 0 ? gpu.latency : gpu.latency / (t.stages - 1);
  // What workgroups of a cluster wait for each other, in latencies: when they begin and end, and
  // for the sums of others, in each round.
  const double waits =
      (t.cluster() == 1 ? 0 : kClusterWaits) + (t.cluster_parts == 1 ? 0 : rounds * kExchangeWaits);
  const double groups = std::min(units * t.cluster(), gpu.cores);
  return gpu_time(groups, threads, steps, work, latency) +
         gpu_time(groups, threads, waits, 0, gpu.latency);
}

/// Where a role is in the ring: the stage of its next step, and the parity of that stage's phase.
class RingPlace {
 public:
  /// Before the role's loops.
  RingPlace(kernel::Builder& b, const std::string& role, int stages)
      : b_(b),
        stages_(stages),
        stage_(b.local(role + "_stage", kernel::kI32)),
        phase_(b.local(role + "_phase", kernel::kI32)) {
    b_.local_store(stage_, b_.i32(0));
    b_.local_store(phase_, b_.i32(0));
  }

  Value stage() const { return b_.local_load(stage_); }
  Value phase() const { return b_.local_load(phase_); }
  Value before() const {
    const Value s = stage();
    return b_.select(b_.eq(s, b_.i32(0)), b_.i32(stages_ - 1), s - 1);
  }
  void advance() {
    const Value next = stage() + 1, p = phase();
    const Value ends = b_.eq(next, b_.i32(stages_));
    b_.local_store(stage_, b_.select(ends, b_.i32(0), next));
    b_.local_store(phase_, b_.select(ends, 1 - p, p));
  }

 private:
  kernel::Builder& b_;
  int stages_, stage_, phase_;
};

/// The workgroup's rank in its cluster.
Value rank(kernel::Builder& b) {
  return b.convert(b.builtin(Builtin::ClusterRank), Ty::I32);
}

/// The stages of an operand that is copied to shared memory.
class StagedOperand {
 public:
  struct Extent {
    int elements;  // rows or columns of a workgroup's tile
    int stages;
    int copiers;  // subgroups, each of which copies a part
    int sharers;  // workgroups of the cluster, each of which copies a part to all of them
  };
  StagedOperand(kernel::Builder& b, const std::string& name, ViewedOperand operand,
                const Extent& extent)
      : b_(b),
        operand_(std::move(operand)),
        elements_(extent.elements),
        copiers_(extent.copiers),
        sharers_(extent.sharers) {
    TensorView tensor = operand_.tensor;
    tensor.swizzle = Swizzle::B128;
    const auto count = static_cast<uint32_t>(elements_);
    const auto share = [&](int n) { return static_cast<uint32_t>(n / copiers_); };
    const auto groups = static_cast<uint32_t>(own_elements() / kLine);
    if (operand_.columns != 0) {
      tensor.box = {kLine, share(kStep), copiers_ == 1 ? groups : 1};
    } else if (operand_.along_k) {
      tensor.box = {kStep, share(own_elements())};
    } else {
      tensor.box = {kLine, share(kStep)};
    }
    if (operand_.batched) tensor.box.push_back(1);
    view_ = b_.view(name, std::move(tensor));
    shared_ = b_.shared(name + "_stages", operand_.type,
                        count * static_cast<uint32_t>(kStep * extent.stages), Swizzle::B128);
  }

  /// Where a box begins in the operand.
  struct Place {
    Value first, k, batch;  // first: the row or column
  };
  /// Begins to copy 64 values of k of a tile to a stage, and counts at the signal.
  void copy(Value stage, const Place& from, int signal) {
    const auto& [begin, k, batch] = from;
    // The workgroup's part.
    const Value part = sharers_ == 1 ? Value(b_, b_.i32(0)) : rank(b_) * own_elements();
    const Value first = begin + part;
    const Value to = stage * (elements_ * kStep) + part * kStep;
    const uint32_t ranks = sharers_ == 1 ? 0 : (1U << static_cast<uint32_t>(sharers_)) - 1;
    const auto box = [&](const Val& at, const Value& where) {
      b_.box_copy(kernel::box_access(view_, shared_, signal, ranks), at, where, stage, kAlign);
    };
    // The subgroup's share, in lines.
    const Value own = copiers_ == 1
                          ? Value(b_, b_.i32(0))
                          : b_.convert(b_.builtin(Builtin::SubgroupIndex), Ty::I32) % copiers_ *
                                ((operand_.along_k ? own_elements() : kStep) / copiers_);
    if (operand_.columns != 0) {
      const int count = copiers_ == 1 ? 1 : own_elements() / kLine;
      for (int i = 0; i < count; ++i)
        box(b_.compose({b_.i32(0), k + own, first / kLine + i, b_.i32(0)}),
            to + i * kGroup + own * kLine);
    } else if (operand_.along_k) {
      box(coordinates(k, first + own, batch), to + own * kLine);
    } else {
      for (int i = 0; i < own_elements(); i += kLine)
        box(coordinates(first + i, k + own, batch), to + i * kStep + own * kLine);
    }
  }

  TeamOperand form() const { return team_stages::form(shared_, operand_.along_k); }
  /// See team_stages::at().
  Value at(Value stage, Value element, int k) const {
    return team_stages::at(stage, elements_, element, k, operand_.along_k);
  }

 private:
  int own_elements() const { return elements_ / sharers_; }
  Val coordinates(Value x, Value y, Value batch) const {
    return operand_.batched ? b_.compose({x, y, batch, b_.i32(0)}) : b_.compose({x, y});
  }

  kernel::Builder& b_;
  ViewedOperand operand_;
  int elements_, copiers_, sharers_, view_ = -1, shared_ = -1;
};

/// The stages of an operand, however it gets there.
class OperandStages {
 public:
  using Side = OperandVectors::Side;
  OperandStages(const TileWork& w, Side side, int copiers) {
    const bool is_a = side == Side::A;
    const int elements = is_a ? own_rows(w.tile) : w.tile.columns;
    const int sharers = is_a ? 1 : w.tile.cluster_rows;
    const std::string name = is_a ? "left" : "right";
    if (is_a ? w.tile.converted.a : w.tile.converted.b) {
      const Ty type = w.tile.matrix.types.a == MmaType::BF16 ? Ty::BF16 : Ty::F16;
      converted_.emplace(w, name, side, type, elements);
    } else if (auto view = is_a ? w.gemm.viewed_a() : w.gemm.viewed_b()) {
      const StagedOperand::Extent extent{elements, w.tile.stages, copiers, sharers};
      copied_.emplace(w.gemm.builder(), name, std::move(*view), extent);
    }
  }

  bool exist() const { return copied_ || converted_; }
  TeamOperand form() const { return converted_ ? converted_->form() : copied_->form(); }
  Value at(Value stage, Value element, int k) const {
    return converted_ ? converted_->at(stage, element, k) : copied_->at(stage, element, k);
  }
  /// Before the stage is empty: loads a step.
  Status load(Value first, Value step) {
    return converted_ ? converted_->load(first, step) : Status();
  }
  /// Brings the step to the stage.
  void bring(Value stage, const StagedOperand::Place& from, int signal) {
    if (converted_) return converted_->store(stage);
    copied_->copy(stage, from, signal);
  }

 private:
  std::optional<StagedOperand> copied_;
  std::optional<ConvertedStages> converted_;
};

/// The results of teams in shared memory, which leave it as boxes.
class BoxedResult {
 public:
  /// `parts`: those of a tile that a team stores. Their number must be a multiple of the copies, so
  /// that the first part of the next tile does not take the place of the last one.
  BoxedResult(kernel::Builder& b, ViewedResult result, int teams, int parts)
      : b_(b),
        result_(std::move(result)),
        copies_(std::gcd(parts, kResultBytes / (kResults * size()))) {
    TensorView tensor = result_.tensor;
    tensor.box = {kPart, kBoxRows};
    if (result_.batched) tensor.box.push_back(1);
    view_ = b_.view("result", std::move(tensor));
    shared_ = b_.shared("results", result_.type, static_cast<uint32_t>(teams * copies_ * kResults));
  }

  /// Waits until there is room for a part; a barrier of the team must follow.
  void make_room() const { b_.box_drain(static_cast<uint32_t>(copies_ - 1)); }
  /// The index of a part of a team's results.
  Value at(Value team, int part) const { return (team * copies_ + part % copies_) * kResults; }
  void put(Value index, Value four) const { b_.shared_store(shared_, index, four); }
  /// Each subgroup stores its rows of a part, after a barrier of the team.
  void store(const TileOrigin& origin, Value team, Value column, int part) const {
    const Value subgroup = b_.convert(b_.builtin(Builtin::SubgroupIndex), Ty::I32) %
                           static_cast<int64_t>(kernel::kTeamSubgroups);
    const Value row = origin.row + (team * kTeamRows + subgroup * kBoxRows);
    const Val place = result_.batched ? b_.compose({column, row, origin.batch, b_.i32(0)})
                                      : b_.compose({column, row});
    b_.box_store(kernel::box_access(view_, shared_), place,
                 at(team, part) + subgroup * (kBoxRows * kPart), kBoxRows * kPart);
  }

 private:
  static constexpr int kBoxRows = kTeamRows / static_cast<int>(kernel::kTeamSubgroups);
  static constexpr int kResults = kTeamRows * kPart;  // of a part
  int size() const { return static_cast<int>(kernel::byte_size(result_.type)); }

  kernel::Builder& b_;
  ViewedResult result_;
  int copies_;  // parts that have room
  int view_ = -1, shared_ = -1;
};

/// The code of one tile.
class HopperTile {
 public:
  explicit HopperTile(const TileWork& w)
      : w_(w),
        b_(w.gemm.builder()),
        teams_(own_rows(w.tile) / kTeamRows),
        converts_(w.tile.converted.a || w.tile.converted.b),
        left_(w, OperandVectors::Side::A, copiers()),
        right_(w, OperandVectors::Side::B, copiers()) {
    const auto stages = static_cast<uint32_t>(w.tile.stages);
    const auto subgroups = static_cast<uint32_t>(teams_) * kernel::kTeamSubgroups;
    const auto sharers = static_cast<uint32_t>(w.tile.cluster_rows);
    full_ = b_.signal("full", stages, sharers * static_cast<uint32_t>(copiers()));
    empty_ = b_.signal("empty", stages, sharers * subgroups);
    if (parts() != 1) {
      summed_ = b_.signal("summed", 1, static_cast<uint32_t>(parts()) * subgroups);
      read_ = b_.signal("read", 1, static_cast<uint32_t>(parts()) * subgroups);
    }
    for (int i = 0; i < w.tile.columns / kPart; ++i)
      sums_.push_back(b_.matrix("sum" + std::to_string(i), MatrixUse::Sum, Ty::F32, kTeamRows,
                                kPart, MmaScope::Team));
    staged_ =
        b_.shared("sums", Ty::F32, static_cast<uint32_t>(staged_parts(w.tile) * teams_ * kStaged));
    if (auto result = w.result.viewed())
      boxed_.emplace(b_, std::move(*result), teams_, stored_parts());
    const auto teams = static_cast<uint32_t>(teams_);
    const uint32_t registers =
        converts_ ? converting_registers(w.tile.columns) : kMultiplyRegisters;
    b_.role({"multiply", teams, subgroups, registers});
    if (converts_) {
      b_.role({"convert", 1, kernel::kTeamSubgroups,
               std::min(kMultiplyRegisters, registers_of(teams + 1) - teams * registers)});
    } else {
      b_.role({"copy", 1, 1, kCopyRegisters});
    }
  }

  Status write() {
    if (!left_.exist() || !right_.exist())
      return internal_error("an operand of the GEMM has no view");
    const std::function<Status()> bodies[] = {[this] { return multiply(); },
                                              [this] { return copy(); }};
    return w_.gemm.run_roles(bodies);
  }

 private:
  static constexpr int kStaged = kTeamRows * kSumLine;  // of a part of a team's sums

  /// Subgroups that bring operands to the stages.
  int copiers() const { return converts_ ? static_cast<int>(kernel::kTeamSubgroups) : 1; }
  int parts() const { return w_.tile.cluster_parts; }
  /// Parts of a tile that a team of this workgroup stores.
  int stored_parts() const { return w_.tile.columns / kPart / parts(); }
  /// The first row of the workgroup's part of a tile.
  TileOrigin own(TileOrigin at) const {
    if (w_.tile.cluster_rows != 1) at.row = at.row + rank(b_) * own_rows(w_.tile);
    return at;
  }
  /// Arrives at the signal of each of `workgroups` of the cluster.
  void arrive(int signal, Value at, int workgroups) {
    if (workgroups == 1) return b_.arrive(signal, at);
    for (int r = 0; r < workgroups; ++r) b_.arrive(signal, at, b_.i32(r));
  }
  void meet() {
    if (w_.tile.cluster() != 1) b_.barrier(kernel::BarrierScope::Cluster);
  }

  Status copy() {
    RingPlace place(b_, "copy", w_.tile.stages);
    RP_TRY(w_.gemm.each_tile([&](const TileOrigin& tile) {
      const TileOrigin at = own(tile);
      const Value first = w_.gemm.first_k_block(), column = at.column_tile * w_.tile.columns;
      return w_.gemm.k_blocks([] { return Status(); },
                              [&](Value i) -> Status {
                                const Value stage = place.stage(), k = (first + i) * kStep;
                                RP_TRY(left_.load(at.row, first + i));
                                RP_TRY(right_.load(column, first + i));
                                b_.await(empty_, stage, 1 - place.phase());
                                left_.bring(stage, {at.row, k, at.batch}, full_);
                                right_.bring(stage, {column, k, at.batch}, full_);
                                arrive(full_, stage, w_.tile.cluster_rows);
                                place.advance();
                                return {};
                              });
    }));
    meet();
    return {};
  }

  Status multiply() {
    const Value team = b_.convert(b_.builtin(Builtin::TeamIndex), Ty::I32);
    RingPlace place(b_, "multiply", w_.tile.stages);
    if (parts() != 1) {
      turn_ = b_.local("turn", kernel::kI32);
      b_.local_store(turn_, b_.i32(0));
    }
    RP_TRY(w_.gemm.each_tile([&](const TileOrigin& tile) -> Status {
      const TileOrigin at = own(tile);
      RP_TRY(sum(team, place));
      if (parts() != 1) return exchange(at, team);
      for (size_t part = 0; part < sums_.size(); ++part)
        RP_TRY(store(at, team, static_cast<int>(part)));
      return {};
    }));
    if (boxed_) b_.box_drain(0);
    meet();
    return {};
  }

  /// Adds the sums that the workgroups of the cluster have, some columns by each, and stores them.
  Status exchange(const TileOrigin& at, Value team) {
    const Value turn = b_.local_load(turn_);
    b_.await(read_, b_.i32(0), 1 - turn);
    for (size_t part = 0; part < sums_.size(); ++part)
      b_.matrix_store(sums_[part], staged_, staged(team, static_cast<int64_t>(part)), kSumLine,
                      false, 4);
    arrive(summed_, b_.i32(0), parts());
    b_.await(summed_, b_.i32(0), turn);
    for (int i = 0; i < stored_parts(); ++i) RP_TRY(store(at, team, i));
    arrive(read_, b_.i32(0), parts());
    b_.local_store(turn_, 1 - turn);
    return {};
  }

  Value staged(Value team, Value part) const {
    return (team * static_cast<int64_t>(staged_parts(w_.tile)) + part) * kStaged;
  }
  Value staged(Value team, int64_t part) const { return staged(team, Value(b_, b_.i32(part))); }

  /// Multiplies all of a tile, and gives its stages back.
  Status sum(Value team, RingPlace& place) {
    for (const int sum : sums_) b_.matrix_zero(sum);
    const TeamOperands operands{static_cast<uint16_t>(sums_[0]), static_cast<uint8_t>(sums_.size()),
                                left_.form(), right_.form()};
    RP_TRY(w_.gemm.k_blocks([] { return Status(); },
                            [&](Value i) -> Status {
                              const Value stage = place.stage();
                              b_.await(full_, stage, place.phase());
                              for (int k = 0; k < kStep; k += kDepth)
                                b_.team_mul_add(operands, left_.at(stage, team * kTeamRows, k),
                                                right_.at(stage, Value(b_, b_.i32(0)), k));
                              b_.matrix_commit();
                              b_.matrix_await(1);
                              b_.if_then(b_.lt(b_.i32(0), i), [&] { free(place.before()); });
                              place.advance();
                              return {};
                            }));
    b_.matrix_await(0);
    b_.if_then(b_.lt(b_.i32(0), w_.gemm.k_block_count()), [&] { free(place.before()); });
    return {};
  }
  /// Tells that a stage may be overwritten.
  void free(Value stage) { arrive(empty_, stage, w_.tile.cluster_rows); }

  /// Four neighbouring sums, over all of K.
  Value loaded(Value at) {
    if (parts() == 1) return b_.shared_load(staged_, at, 4);
    Value sum = b_.shared_load(staged_, at, 4, b_.i32(0));
    for (int r = 1; r < parts(); ++r) sum = sum + b_.shared_load(staged_, at, 4, b_.i32(r));
    return sum;
  }

  /// Stores some columns of the team's rows: those of a part, or of the workgroup's part of this
  /// number.
  Status store(const TileOrigin& at, Value team, int number) {
    const bool split = parts() != 1;
    const Value part =
        split ? rank(b_) + static_cast<int64_t>(number) * parts() : Value(b_, b_.i32(number));
    const Value from = staged(team, split ? part : Value(b_, b_.i32(0)));
    if (!split)
      b_.matrix_store(sums_[static_cast<size_t>(number)], staged_, from, kSumLine, false, 4);
    if (boxed_) boxed_->make_room();
    b_.barrier(kernel::BarrierScope::Team);
    constexpr int kWidth = kPart / 4, kCount = kTeamRows * kWidth / kTeam;
    const Value local = local_index(b_) % kTeam;
    const Value first_vec = at.column_tile * (w_.tile.columns / 4) + part * kWidth;
    RP_TRY(w_.result.loop(b_.i32(kCount), kCount, [&](Value i) {
      const Value n = i * kTeam + local;
      const Value r = n / kWidth, v = n % kWidth;
      const Value row = at.row + (team * kTeamRows + r), vec = first_vec + v;
      return w_.result.guard_columns(vec, [&] {
        return w_.result.guard_row(row, [&]() -> Status {
          const Value four = loaded(from + r * kSumLine + v * 4);
          if (!boxed_) return w_.result.store(row, vec, four);
          RP_ASSIGN(const Value result, w_.result.stored_form(row, vec, four));
          boxed_->put(boxed_->at(team, number) + (r * kPart + v * 4), result);
          return {};
        });
      });
    }));
    b_.barrier(kernel::BarrierScope::Team);  // the sums have been read, the results are complete
    if (boxed_) boxed_->store(at, team, first_vec * 4, number);
    return {};
  }

  const TileWork& w_;
  kernel::Builder& b_;
  const int teams_;
  const bool converts_;
  OperandStages left_, right_;
  int full_ = -1, empty_ = -1, staged_ = -1;
  int summed_ = -1, read_ = -1, turn_ = -1;  // if workgroups sum parts of K
  std::vector<int> sums_;
  std::optional<BoxedResult> boxed_;
};

class HopperSchedule final : public Schedule {
 public:
  const char* name() const override { return "team matrix tile"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    std::optional<MmaTypes> types = size.converted ? size.mma : std::nullopt;
    if (size.viewed) types = *size.viewed == Ty::F16 ? kHalfMma : kBfloatMma;
    if (!types) return out;
    for (const MmaConfig& matrix : device.matrices(*types)) {
      if (matrix.scope != MmaScope::Team) continue;
      for (const HopperShape& shape : kHopperShapes)
        if (shape.columns == static_cast<int>(matrix.n)) add_tile(out, shape, matrix, size, device);
    }
    return out;
  }

  plan::Packing packing(const plan::MatrixShape& b, int64_t bits, const Tile& tile) const override {
    const bool converts = bits != 0 || tile.converted.b;
    return converts ? columns_in_tiles(b, bits, tile) : plan::in_tiles(b, kLine);
  }

  Status write(const TileWork& w) const override { return HopperTile(w).write(); }

 private:
  static void add_tile(std::vector<Tile>& out, const HopperShape& shape, const MmaConfig& matrix,
                       const GemmSize& size, const TargetFacts& device) {
    Tile t;
    t.rows = shape.teams * kTeamRows;
    t.columns = shape.columns;
    t.unit = Unit::Workgroup;
    t.batch_is_symbol = true;
    t.groups = kGroups;
    t.band = kBand;
    t.subgroup_size = 32;
    t.workgroup = static_cast<uint32_t>((shape.teams + 1) * kTeam);
    t.matrix = matrix;
    t.step = kStep;
    t.stages = shape.stages;
    if (!size.viewed) t.converted = *size.converted;
    if (t.workgroup > device.workgroup_invocations() || device.subgroup_size() != t.subgroup_size ||
        team_bytes(t) > static_cast<int>(device.shared_bytes()))
      return;
    add_with_splits(out, t, size, tiles_of(size, t.rows, t.columns),
                    [&](int splits) { return team_time(size, t, splits); });
    if (size.viewed) add_clusters(out, t, size, device);
  }

  /// The same tile for each workgroup of a cluster, if there are several in a column of them; and
  /// one that the workgroups of a cluster sum together, if few tiles leave cores idle.
  static void add_clusters(std::vector<Tile>& out, const Tile& one, const GemmSize& size,
                           const TargetFacts& device) {
    constexpr double kLeastBlocks = 4;  // of a part of K
    Tile rows = one;
    rows.cluster_rows = 2;
    rows.rows = rows.cluster_rows * one.rows;
    rows.groups = kGroups / rows.cluster_rows;
    rows.cost = kClusterGain * team_time(size, rows, 1);
    if (one.columns >= 2 * kLine && size.m > one.rows) out.push_back(rows);
    for (const int parts : {2, 4}) {
      Tile t = one;
      t.cluster_parts = parts;
      t.groups = kGroups / parts;
      while (t.stages > 3 && team_bytes(t) > static_cast<int>(device.shared_bytes())) --t.stages;
      t.cost = kClusterGain * team_time(size, t, 1);
      const bool idle = tiles_of(size, t.rows, t.columns) * parts <= kGroups;
      if (idle && t.columns % (parts * kPart) == 0 && size.k / kStep / parts >= kLeastBlocks &&
          team_bytes(t) <= static_cast<int>(device.shared_bytes()))
        out.push_back(t);
    }
  }
};

}  // namespace

const Schedule& hopper_tile_schedule() {
  static const HopperSchedule schedule;
  return schedule;
}

}  // namespace reprise::shaders
