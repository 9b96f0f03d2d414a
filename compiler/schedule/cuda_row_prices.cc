// Prices of CUDA's row kernels: cost_model.h.

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/cuda_costs.h"

namespace kiln {

namespace {

// The largest ratio of a grid's threads to those that fit on the chip at once.
constexpr int kRounds = 64;

// Registers that the compiler saves, relative to the estimate, if a block needs them.
constexpr int kSparedRegisters = 2;

// Instructions for one step of a join across a warp: for a plain value, for moments
// (which take divisions), and for a maximum with its sum of exponentials.
constexpr double kJoinStep = 1.5;
constexpr double kMomentsStep = 26;
constexpr double kSoftmaxStep = 41;
constexpr double kJoinClusterNs = 780;   // a barrier of a cluster and its reads
constexpr double kStartClusterNs = 400;  // to start and end a cluster
constexpr double kClusterNs = 380;       // the same for each of its blocks
// A load of a cluster's last pass that waits for another load.
constexpr double kClusterLoadNs = 380;
// The share of a cluster's phases that nothing overlaps: with whole groups, and with
// groups that may be partial.
constexpr double kClusterApart = 0.65;
constexpr double kPartialClusterApart = 0.8;
// Instructions of a thread for a row in shared memory, and for each of its groups.
constexpr double kStageRow = 180;
constexpr double kStageGroup = 13;
constexpr double kStagePartialGroup = 80;  // that may be partial
// Time that a thread takes for an element of a staged row in all passes, and for a
// group that may be partial.
constexpr double kStageElementNs = 3.7;
constexpr double kStagePartialNs = 600;
// While the next rows are being copied, memory and instructions overlap but for this
// share of the lesser of them.
constexpr double kStagedApart = 0.2;
// For stretches, fitted to 70 configurations of eight backward passes of LayerNorm on
// an H100 (bench/records/gpu_kernels.md): the warps that a multiprocessor needs so that
// one can issue in each cycle; the share of a block's steps that nothing overlaps, where
// a step takes as long as its joins or a copy; and registers for the position in the
// stretch and for the rows that are being copied.
constexpr double kWarpsThatIssue = 10;
constexpr double kInSeries = 0.25;
constexpr int kStretchRegisters = 2;
// The extra cost of a group whose warp takes both branches, less in long rows. Then, for
// rows in registers: the same two, the extra cost of a store that may be partial, and
// the time of a group.
constexpr double kBothWays = 2.1;
constexpr double kBothWaysOfLong = 0.4;
constexpr double kHeldBothWays = 1.1;
constexpr double kHeldBothWaysOfLong = 0.1;
constexpr double kHeldPartialStores = 2;
constexpr double kHeldPartialNs = 160;
// For a row of half types in registers: the registers of values that ptxas widens ahead
// of their use, for each element of the groups beyond the first kFewHeld.
constexpr double kWidenedGroup = 0.65;
constexpr int kFewHeld = 8;
// The slowdown of memory when a warp reads pieces of rows of half a cache line. It
// grows as the pieces get shorter.
constexpr double kPiecesOfRows = 0.1;
// Up to this many masked loads, registers for their addresses are not counted.
constexpr int kFewWindows = 2;
constexpr double kOthersNs = 390;  // of a load from L2
// Time for an element that is loaded by a loaded index: the check of the next index waits
// for it. Measured: the mean of 464 gathered numbers takes 5.3 us on 256 lanes, 20 on 16.
constexpr double kGatheredNs = 500;
// If some multiprocessors have more blocks than others: the weight of their additional
// instructions and memory traffic.
constexpr double kUnevenIssue = 0.58;
constexpr double kUnevenMemory = 0.31;
// The slowdown of memory when blocks read many long rows at a time, which lie in
// different pages. It begins at kFewRows and is complete at four times as many.
constexpr double kManyRows = 0.5;
constexpr double kFewRows = 1300;
constexpr double kLongRowBytes = 32 << 10;
// The most shared memory that the joins across a row take.
constexpr int64_t kSharedOfStatic = 10 << 10;

}  // namespace

// The slowdown of blocks that each have a fixed part of the work: the last round takes
// as long as the others, and a multiprocessor with one block more than others ends
// later.
double NestCosts::Unevenness(double blocks, double slots) const {
  const double rounds = blocks / slots;
  if (rounds >= 6) return 1.05;
  if (rounds > 1) return std::ceil(rounds) / rounds;
  const double each = blocks / target_.multiprocessors;
  return each < 1 ? 1 : 1 + kUnevenMemory * (std::ceil(each) / each - 1);
}

NestCosts::RowTraffic NestCosts::TrafficOf(const CudaRows& v,
                                           const PricedVectors& vectors) const {
  RowTraffic traffic;
  const std::vector<double>& sectors = SectorsOf(vectors);
  for (size_t i = 0; i < accesses_.size(); ++i) {
    const Access& access = accesses_[i];
    traffic.gathers |= access.reduced && access.gathered && !access.store;
    const double once =
        access.reduced ? BytesAlong(access, vectors.axis, v.lanes * v.vector)
                       : access.points * double(access.bytes);
    const int again =
        std::max(0, (v.held > 0 ? access.held_passes : access.passes) - 1);
    traffic.once += once;
    traffic.again += once * again;
    traffic.sectors += sectors[i] * (1 + again);
  }
  return traffic;
}

// Whether several passes read rows of half types.
bool NestCosts::HoldsHalves() const {
  return std::any_of(accesses_.begin(), accesses_.end(), [](const Access& a) {
    return !a.store && a.plain && a.reduced && a.passes > 1 && a.bytes == 2;
  });
}

int NestCosts::RowRegisters(const CudaRows& v,
                            const PricedVectors& vectors) const {
  const int held_words = PackWords(vectors, true);
  const int all_words = PackWords(vectors, false);
  // The positions of a window, each with an address for each element.
  int windows = 0;
  for (const Access& access : accesses_)
    windows += !access.store && !access.plain && access.reduced;
  const int addresses = std::max(0, windows - kFewWindows) * 3 * v.vector;
  const int base =
      kBaseRegisters + addresses + 2 * reductions_ + 3 * v.vector / 2 +
      (v.stretch > 0 ? kStretchRegisters + column_sums_ * v.held * v.vector
                     : 0);
  if (v.held == 0) return base + v.unroll * all_words;
  if (v.stages > 0) return base + all_words;
  const int others = all_words - held_words;
  if (v.cluster > 1) {
    return kBaseRegisters + 2 + v.held * held_words +
           (v.unroll > 1 ? v.held : 1) * others;
  }
  const int widened = HoldsHalves()
                          ? static_cast<int>(kWidenedGroup * v.vector *
                                             std::max(0, v.held - kFewHeld))
                          : 0;
  return base + widened + v.held * held_words +
         (v.unroll > 1 ? v.held : 1) * others +
         (v.hold_costly != 0 ? v.held * v.vector : 0);
}

// Shared memory of a block that stages its rows: the groups that each thread holds, one
// value for each row, and the sums of all rows of the block.
double NestCosts::StagedBytes(const CudaRows& v,
                              const PricedVectors& vectors) const {
  const double threads = double(v.lanes) * v.rows;
  double bytes = 4.0 * PackWords(vectors, true) * v.held * v.stages;
  for (const Access& access : accesses_) {
    if (!access.store && access.plain && !access.reduced)
      bytes += double(access.bytes) * v.stages;
  }
  const bool joins = column_sums_ > 0 && v.rows > 1;
  return threads * (bytes + (joins ? 8.0 * v.vector : 0));
}

// Time that a block takes for its rows if no other block uses the memory: the sum of
// all steps that wait for one another.
double NestCosts::RowBlockNs(const CudaRows& v, const PricedVectors& vectors,
                             double steps, bool gathers) const {
  const double passes = static_cast<double>(passes_.passes.size());
  const double join = v.lanes > 32 ? kJoinBlockNs : kJoinWarpNs;
  // A join of moments moves three values and divides at each step.
  double ns = (reducing_passes_ + 3 * moments_) * join + 150;
  if (v.cluster > 1)
    ns += kStartClusterNs + kClusterNs * v.cluster +
          (reductions_ + moments_) * kJoinClusterNs;
  if (v.stages > 0) {
    // Later rows are being copied meanwhile.
    if (v.stages > 1) return std::max(ns, kLoadNs / (v.stages - 1));
    const bool others = PackWords(vectors, false) > PackWords(vectors, true);
    return ns + kLoadNs +
           v.held * (kStageElementNs * v.vector + (others ? kOthersNs : 0) +
                     (vectors.cut ? kStagePartialNs : 0));
  }
  if (v.held > 0) {
    const int held_words = PackWords(vectors, true);
    const bool others = PackWords(vectors, false) > held_words;
    // Loads of the last pass wait for the store of the previous group, unless they are
    // issued together.
    if (others && passes > 1)
      ns += kOthersNs * (v.unroll > 1 || v.stretch > 0 ? 1 : steps);
    ns += kLoadNs;
    if (vectors.cut && vectors.width > 1) ns += kHeldPartialNs * steps;
    // There are few blocks to hide loads that wait for one another.
    if (v.cluster > 1 && v.unroll == 1 && LoadsForOnePass())
      ns += (steps - 1) * kClusterLoadNs;
    // The loads of the groups wait for one another.
    if (held_words == 0 && v.unroll == 1) ns += (steps - 1) * kLoadNs;
    if (gathers) ns += steps * v.vector * kGatheredNs;
  } else {
    // Gathered groups are loaded one after the other.
    ns += CeilDivide(steps, gathers ? 1 : v.unroll) * passes * kLoadNs *
          (gathers ? 2 : 1);
  }
  return v.parts > 1 ? ns + kJoinPartsNs : ns;
}

int NestCosts::ResidentRows(const CudaRows& v, const PricedVectors& vectors,
                            Price& price) const {
  const int threads = v.lanes * v.rows;
  price.registers = RowRegisters(v, vectors);
  price.fits = int64_t{price.registers - kSparedRegisters} * threads <=
                   target_.registers_per_multiprocessor &&
               price.registers <= 168;
  const int resident = Resident(threads, price.registers);
  if (v.stages == 0) return resident;
  const double shared = StagedBytes(v, vectors) + double(kSharedOfBlock);
  const double room = double(target_.shared_bytes_per_multiprocessor);
  price.fits = price.fits && shared <= room - double(kSharedOfStatic);
  return std::clamp(int(room / shared), 1, resident);
}

// Memory is fastest if each block runs its loop once: on an H200, sums of 162 to
// 1,400 MB take 3 to 5 % longer with only 4 times as many threads as fit on it. Beyond
// 64 times, starting blocks costs as much as it saves.
int NestCosts::BlocksOf(const KernelVariant& variant) const {
  const auto* rows = std::get_if<CudaRows>(&variant);
  if (PartsOf(variant) > 1 ||
      (rows != nullptr && (rows->cluster > 1 || rows->stretch > 0)))
    return 0;
  const int blocks = std::max(
      1, kRounds * target_.threads_per_multiprocessor / ThreadsOf(variant));
  // With no more blocks than that, the kernel needs no loop.
  const auto all_at_most = [&](int most) {
    SymExpr points = 1;
    for (uint32_t a = 0; a < facts_.num_outer; ++a)
      points = points * facts_.extents[a];
    const double due =
        double(points.is_constant() ? points.constant()
                                    : shapes_.Range(points).max) /
        PointsOfBlock(variant);
    return due <= double(most) * target_.multiprocessors ? 0 : most;
  };
  if (rows == nullptr || rows->stages == 0) return all_at_most(blocks);
  // Blocks that go from row to row: as many as fit.
  const PricedVectors& vectors =
      VectorsFor(facts_.num_axes - 1, rows->vector, rows->peel != 0);
  const double shared = StagedBytes(*rows, vectors) + double(kSharedOfBlock);
  return all_at_most(
      std::clamp(int(double(target_.shared_bytes_per_multiprocessor) / shared),
                 1, blocks));
}

// The size of the widest element that moves along the row.
int64_t NestCosts::WidestBytes() const {
  int64_t widest = 1;
  for (const Access& access : accesses_)
    if (access.reduced) widest = std::max(widest, access.bytes);
  return widest;
}

bool NestCosts::StoresRows() const {
  return std::any_of(
      accesses_.begin(), accesses_.end(),
      [](const Access& access) { return access.store && access.reduced; });
}

double NestCosts::RowIssue(const CudaRows& v, const PricedVectors& vectors,
                           double groups) const {
  // Lanes beyond the end of the row are idle.
  const double steps = CeilDivide(groups, v.lanes);
  const double idle = steps * v.lanes / std::max(1.0, groups);
  double issue = Issue(vectors, v.held > 0, v.hold_costly != 0) * idle;
  // The first and the last group of a row are partial: their warps take both branches.
  if (vectors.cut && vectors.width > 1) {
    const bool registers = v.held > 0 && v.stages == 0;
    const double ways =
        registers ? kHeldBothWays + (StoresRows() ? kHeldPartialStores : 0)
                  : kBothWays;
    const double of_long = registers ? kHeldBothWaysOfLong : kBothWaysOfLong;
    issue *= 1 + std::max(0.0, ways * std::min(2.0, steps) / steps - of_long);
  }
  // Every thread of a row repeats the work for the row as a whole.
  const double threads = double(outer_) * v.lanes * v.cluster;
  const double steps_of_join = std::log2(std::max(2, std::min(v.lanes, 32)));
  const double join = kJoinStep * (reductions_ - moments_ - softmaxes_) +
                      kMomentsStep * moments_ + kSoftmaxStep * softmaxes_;
  issue += threads * (outer_work_ + join * steps_of_join + 12);
  if (v.stages > 0) {
    issue += threads * kStageRow +
             double(outer_) * groups *
                 (vectors.cut ? kStagePartialGroup : kStageGroup);
  }
  return issue;
}

// Adds up the parts of `price` for a stretch of rows. Its blocks are few and stay to the
// end: only their warps issue, and the steps of a block follow one another.
Price NestCosts::FinishStretch(Price price, const CudaRows& v,
                               int resident) const {
  const int at_a_time = std::min(v.rows, v.stretch);
  const int warps = std::max(1, resident * v.lanes * at_a_time / 32);
  const double latency = std::exchange(price.latency_ns, 0);
  if (!price.one_each) price.issue_ns *= std::max(1.0, kWarpsThatIssue / warps);
  price = Finish(price, warps, kStagedApart, v.stages > 1 ? kStagedApart : 1);
  price.latency_ns = latency;
  // With a block or less for each multiprocessor, latency is that of the first load.
  price.ns = price.one_each ? std::max(price.ns, latency)
                            : price.ns + kInSeries * latency;
  return price;
}

// Adds up the parts of `price`. They overlap less if there are few warps, or if warps
// wait for one another.
Price NestCosts::FinishRows(Price price, const CudaRows& v,
                            int resident) const {
  if (v.stages > 1 || (v.stretch > 0 && !price.one_each))
    return FinishStretch(price, v, resident);
  const int warps = resident * v.lanes * v.rows / 32;
  if (v.cluster > 1) {
    // The blocks of a cluster go through the phases of a row together. Blocks of other
    // clusters overlap with some of that.
    const double others = std::max(0.6, 1.2 - 0.2 * resident);
    price.memory_ns += std::exchange(price.latency_ns, 0) *
                       (v.peel != 0 ? kPartialClusterApart
                                    : kClusterApart * std::min(1.0, others));
    return Finish(price, warps);
  }
  if (v.stages == 1) {
    // While a block copies its row, only other blocks compute.
    price.memory_ns += std::exchange(price.latency_ns, 0) *
                       std::min(1.0, 4.0 / (resident * resident));
    return Finish(price, warps);
  }
  // All threads of a row wait for one another at each join, and before a last pass that
  // stores. Only other rows use the memory meanwhile.
  const bool more = v.held > 0 || StoresRows();
  const bool waits = v.lanes > 32 && reducing_passes_ + (more ? 1 : 0) > 1;
  return Finish(price, warps,
                waits ? 0.31 / (resident * std::max(1, v.rows)) : 0);
}

Price NestCosts::PriceCuda(const CudaRows& v) const {
  const PricedVectors& vectors =
      VectorsFor(facts_.num_axes - 1, v.vector, v.peel != 0);
  const RowTraffic traffic = TrafficOf(v, vectors);
  Price price;
  price.bytes = traffic.once + traffic.again;
  const int resident = ResidentRows(v, vectors, price);
  const double slots = double(target_.multiprocessors) * resident;
  const double blocks =
      v.stretch > 0 ? CeilDivide(double(outer_), v.stretch)
                    : CeilDivide(double(outer_), v.rows) * v.parts * v.cluster;
  // Later passes find a part of the rows in L2.
  const double live = traffic.once /
                      std::max<double>(1, double(outer_) * v.cluster / v.rows) *
                      std::min(blocks, slots);
  const double missed =
      std::clamp((live - kL2Bytes) / (kL2NoBytes - kL2Bytes), 0.0, 1.0);
  const double from_memory =
      traffic.once +
      traffic.again * (kL2TimeFactor + (1 - kL2TimeFactor) * missed);
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  const double uneven =
      v.parts > 1 || v.stretch > 0 ? Unevenness(blocks, slots) : 1;
  const double row_bytes = traffic.once / std::max<double>(1, double(outer_));
  const double at_a_time = std::min(blocks, slots) * v.rows / v.cluster;
  const double many = std::clamp(std::log2(at_a_time / kFewRows) / 2, 0.0, 1.0);
  const double streams =
      1 + kManyRows * many * std::min(1.0, row_bytes / kLongRowBytes);
  const double groups =
      (double(reduced_) / v.vector + (vectors.rest.Is(0) ? 0 : 1)) /
      (v.parts * v.cluster);
  // If each lane has one group, a row is read as one piece.
  const double piece = double(v.lanes) * v.vector * WidestBytes();
  const double pieces =
      groups > v.lanes && piece < double(kLineBytes)
          ? 1 + kPiecesOfRows * (double(kLineBytes) / piece - 1)
          : 1;
  price.memory_ns = std::max(from_memory / target_.memory_bytes_per_ns,
                             traffic.sectors / (kSectorsPerCycle * chip)) *
                    uneven * streams * pieces;
  const double each = blocks / target_.multiprocessors;
  const double busy =
      each < 8 ? 1 + kUnevenIssue * (std::ceil(each) / each - 1) : 1;
  price.issue_ns =
      RowIssue(v, vectors, groups) / (chip * kLanesPerCycle) * busy;
  const double rounds = blocks / slots;
  const double one_after_another = (uneven > 1 || v.cluster > 1) && rounds < 4
                                       ? std::ceil(rounds)
                                       : std::max(1.0, rounds);
  price.latency_ns =
      one_after_another *
      RowBlockNs(v, vectors, CeilDivide(groups, v.lanes), traffic.gathers) *
      (v.stretch > 0 ? CeilDivide(v.stretch, v.rows) : 1);
  price.one_each = blocks <= target_.multiprocessors;
  return FinishRows(price, v, ResidentOf(blocks, resident));
}

}  // namespace kiln
