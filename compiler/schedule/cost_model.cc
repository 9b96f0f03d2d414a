#include "compiler/schedule/cost_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/loop/index_expr.h"
#include "compiler/schedule/reduce_ops.h"
#include "compiler/schedule/tile_accesses.h"

namespace kiln {

namespace {

// Numbers of the H200, measured on copies and reductions of 4 KB to 1 GB; other
// chips are alike in them.
constexpr double kSector = 32;        // bytes
constexpr double kLoadNs = 750;       // a load that misses L2, under load
constexpr double kJoinWarpNs = 60;    // a shuffle tree
constexpr double kJoinBlockNs = 180;  // two barriers and a second tree
constexpr double kJoinPartsNs = 2200; // fence, counter, partial results
constexpr double kL2Factor = 0.55;    // of the memory's time, for a second read
constexpr double kL2Bytes = 24e6;     // that may be relied on
constexpr double kSectorsPerCycle = 2.5;  // that a multiprocessor moves from L2
constexpr int kLanesPerCycle = 128;   // of a multiprocessor
constexpr int kBaseRegisters = 26;

// Instructions of an operation, without loads and stores.
double InstructionsOf(const ScalarNode& node) {
  switch (node.op) {
    case ScalarOp::kConstant:
    case ScalarOp::kIndex:
    case ScalarOp::kLoad:
    case ScalarOp::kSeed:
    case ScalarOp::kReduceResult:
      return 0;
    case ScalarOp::kDiv:
    case ScalarOp::kReciprocal:
    case ScalarOp::kRsqrt:
    case ScalarOp::kSqrt:
      return 9;
    case ScalarOp::kRandom:
      return 24;
    case ScalarOp::kReduce:
      return node.reduce == ReduceOp::kArgMax || node.reduce == ReduceOp::kArgMin
                 ? 6
                 : 1;
    case ScalarOp::kErf:
    case ScalarOp::kTanh:
      return 22;
    default:  // a question about few; the others take one or two
      return IsCostly(node.op) ? 14 : 1;
  }
}

double CeilDivide(double a, double b) { return std::ceil(a / b); }

}  // namespace

std::string ToText(const Price& price) {
  return absl::StrFormat(
      "%.2f us (memory %.2f, issue %.2f, latency %.2f; %.2f MB%s)%s",
      price.ns / 1e3, price.memory_ns / 1e3, price.issue_ns / 1e3,
      price.latency_ns / 1e3, price.bytes / 1e6,
      price.registers > 0 ? absl::StrCat(", ", price.registers, " registers")
                          : "",
      price.fits ? "" : " does not fit");
}

NestCosts::NestCosts(const LoopNest& nest, const NestFacts& facts,
                     const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                     const Target& target)
    : nest_(nest),
      facts_(facts),
      buffers_(buffers),
      shapes_(shapes),
      target_(target),
      passes_(PlanPasses(nest, facts, {})) {
  for (uint32_t a = 0; a < facts.num_axes; ++a) {
    extents_.push_back(std::max<int64_t>(1, shapes.Hint(facts.extents[a])));
    (a < facts.num_outer ? outer_ : reduced_) *= extents_.back();
  }
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const ScalarNode& node = nest.body[id];
    if (node.op != ScalarOp::kLoad) continue;
    AddAccess(node.buffer, facts.load_offset[id], facts.axes[id],
              node.args.empty() && !HasIndirect(facts.load_offset[id]),
              facts.IsReduced(id), false, id);
  }
  for (size_t s = 0; s < nest.stores.size(); ++s) {
    const Store& store = nest.stores[s];
    AddAccess(store.buffer, facts.store_offset[s], facts.store_axes[s],
              store.mask == Store::kNoMask && store.mode == StoreMode::kSet,
              facts.StoreIsReduced(s), true, 0);
  }
  CountWork();
}

void NestCosts::AddAccess(BufferId buffer, const SymExpr& offset, AxisSet axes,
                          bool plain, bool reduced, bool store, ScalarId id) {
  Access access;
  access.buffer = buffer;
  access.bytes = SizeInBytes(buffers_[buffer].dtype);
  access.offset = &offset;
  access.store = store;
  access.plain = plain;
  access.reduced = reduced;
  for (uint32_t a = 0; a < facts_.num_axes; ++a) {
    // What does not move along an axis is read once for all of its points.
    if ((axes & AxisBit(a)) == 0 ||
        MotionOf(offset, a, facts_) == Motion::kStill) {
      continue;
    }
    access.axes |= AxisBit(a);
    access.points *= static_cast<double>(extents_[a]);
  }
  // No more than the buffer has, but for what is gathered from caches anyway.
  double size = 1;
  for (const SymExpr& extent : buffers_[buffer].sizes)
    size *= static_cast<double>(std::max<int64_t>(1, shapes_.Hint(extent)));
  access.points = std::min(access.points, size);
  if (!store && reduced) {
    access.passes = 0;
    for (const KernelPass& pass : passes_.passes)
      access.passes += std::binary_search(pass.inside.begin(),
                                          pass.inside.end(), id);
    access.passes = std::max(access.passes, 1);
    access.held_passes = plain ? 1 : access.passes;
  }
  accesses_.push_back(access);
}

void NestCosts::CountWork() {
  for (const KernelPass& pass : passes_.passes) {
    for (ScalarId id : pass.inside) {
      const ScalarNode& node = nest_.body[id];
      const double cost = InstructionsOf(node);
      work_ += cost;
      if (IsCostly(node.op) && facts_.stage[id] + 1u < passes_.passes.size()) {
        has_costly_ = true;
      }
    }
    for (ScalarId id : pass.before)
      outer_work_ += InstructionsOf(nest_.body[id]);
    for (ScalarId id : pass.reduces) {
      work_ += InstructionsOf(nest_.body[id]);
      ++reductions_;
    }
    reducing_passes_ += !pass.reduces.empty();
  }
  if (has_costly_) {
    const KernelPasses held =
        PlanPasses(nest_, facts_, ValuesToHold(nest_, facts_, true));
    double work = 0;
    for (const KernelPass& pass : held.passes) {
      for (ScalarId id : pass.inside) work += InstructionsOf(nest_.body[id]);
      for (ScalarId id : pass.reduces) work += InstructionsOf(nest_.body[id]);
    }
    costly_again_ = work_ - work;
  }
  for (ScalarId id : passes_.last) {
    (facts_.num_axes > facts_.num_outer ? outer_work_ : work_) +=
        InstructionsOf(nest_.body[id]);
  }
}

int NestCosts::WidestVector(uint32_t axis) const {
  int64_t narrowest = 16;
  bool any = false;
  for (const Access& access : accesses_) {
    if (MotionOf(*access.offset, axis, facts_) != Motion::kContiguous) continue;
    any = true;
    narrowest = std::min(narrowest, access.bytes);
  }
  return any ? static_cast<int>(std::clamp<int64_t>(16 / narrowest, 1, 8)) : 1;
}

Vectors NestCosts::VectorsFor(uint32_t axis, int width, bool peel) const {
  return MakeVectors(nest_, facts_, buffers_, shapes_, axis, width, peel);
}

bool NestCosts::AllWide(uint32_t axis, int width) const {
  const Vectors vectors = VectorsFor(axis, width, false);
  if (vectors.cut) return false;
  for (const Access& access : accesses_) {
    if (MotionOf(*access.offset, axis, facts_) != Motion::kContiguous) continue;
    if (!IsWideAccess(buffers_[access.buffer], *access.offset, vectors, facts_))
      return false;
  }
  return true;
}

bool NestCosts::MaySplit() const {
  if (passes_.passes.size() != 1 || passes_.passes[0].reduces.empty() ||
      facts_.has_scan) {
    return false;
  }
  return true;
}

// Bytes of memory, in sectors. A strided access that is contiguous along another
// axis finds its sector in L2 when the neighbours come.
double NestCosts::BytesAlong(const Access& access, uint32_t axis,
                             int run) const {
  const double bytes = access.points * static_cast<double>(access.bytes);
  if (axis == Vectors::kNoAxis) return bytes;
  switch (MotionOf(*access.offset, axis, facts_)) {
    case Motion::kStill:
      return bytes;
    case Motion::kContiguous: {
      const double stretch =
          static_cast<double>(run) * static_cast<double>(access.bytes);
      // Short stretches open more pages of memory for the same bytes.
      const double pages = stretch < 64 ? 1.15 : stretch < 128 ? 1.05 : 1.0;
      return bytes * std::max(pages, kSector / stretch);
    }
    case Motion::kStrided:
    case Motion::kIrregular: {
      bool elsewhere = false;
      for (uint32_t a = 0; a < facts_.num_axes; ++a)
        elsewhere |= MotionOf(*access.offset, a, facts_) == Motion::kContiguous;
      const double waste = kSector / static_cast<double>(access.bytes);
      return elsewhere ? bytes * (1 + kL2Factor * waste / 2) : bytes * waste;
    }
  }
  return bytes;
}

double NestCosts::Sectors(const Access& access, const Vectors& vectors) const {
  double points = access.points;
  const Motion motion =
      vectors.axis == Vectors::kNoAxis
          ? Motion::kStill
          : MotionOf(*access.offset, vectors.axis, facts_);
  // A warp that reads one element for all its lanes moves one sector.
  const double lanes_still = 32.0 * vectors.width;
  if (motion == Motion::kStill) {
    double all = static_cast<double>(outer_);
    if (access.reduced) all *= static_cast<double>(reduced_);
    return all / lanes_still;
  }
  if (motion == Motion::kContiguous)
    return points * static_cast<double>(access.bytes) / kSector;
  return points;
}

// Lane instructions, all points and passes.
double NestCosts::Issue(const Vectors& vectors, bool held,
                        bool costly_held) const {
  const bool reduces = facts_.num_axes > facts_.num_outer;
  const double inner =
      static_cast<double>(outer_) * static_cast<double>(reduced_);
  double total = 0;
  double per_point = work_ - (held && costly_held ? costly_again_ : 0);
  if (vectors.cut && vectors.width > 1) per_point += 1.5;
  for (const Access& access : accesses_) {
    const double all = access.reduced || !reduces
                           ? inner
                           : static_cast<double>(outer_);
    const int passes = held ? access.held_passes : access.passes;
    const bool lanes =
        vectors.axis != Vectors::kNoAxis && vectors.width > 1 &&
        MotionOf(*access.offset, vectors.axis, facts_) != Motion::kStill;
    const bool wide =
        lanes && IsWideAccess(buffers_[access.buffer], *access.offset, vectors,
                              facts_);
    // A conversion an element; an address and an access for each vector.
    const double each =
        wide || !lanes ? 5.0 / vectors.width : 3.0 + 2.0 / vectors.width;
    const double convert = access.bytes < 4 ? 1 : 0;
    total += all * (each * passes + convert);
  }
  total += inner * per_point + static_cast<double>(outer_) * outer_work_;
  // Finding a point's axes.
  total += inner / vectors.width * 4;
  return total;
}

// 32-bit registers that a group of each load takes.
int NestCosts::PackWords(const Vectors& vectors, bool only_held) const {
  int words = 0;
  for (const Access& access : accesses_) {
    if (access.store || !access.plain) continue;
    if (only_held && (!access.reduced || access.passes < 2)) continue;
    const bool lanes =
        vectors.axis != Vectors::kNoAxis &&
        MotionOf(*access.offset, vectors.axis, facts_) != Motion::kStill;
    words += static_cast<int>(
        (access.bytes * (lanes ? vectors.width : 1) + 3) / 4);
  }
  return words;
}

int NestCosts::Resident(int threads, int registers) const {
  const int64_t by_threads = target_.threads_per_multiprocessor / threads;
  const int64_t by_registers =
      target_.registers_per_multiprocessor / (int64_t{registers} * threads);
  return static_cast<int>(std::clamp<int64_t>(
      std::min(by_threads, by_registers), 1, 32));
}

Price NestCosts::Finish(Price price) const {
  const double worst =
      std::max({price.memory_ns, price.issue_ns, price.latency_ns});
  const double sum = price.memory_ns + price.issue_ns + price.latency_ns;
  price.ns = worst + 0.12 * (sum - worst);
  return price;
}

Price NestCosts::PriceOf(const KernelVariant& variant) const {
  if (const auto* v = std::get_if<CudaPoints>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaTiles>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaRows>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaColumns>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaSerial>(&variant)) return PriceCuda(*v);
  const uint32_t last_outer =
      facts_.num_outer > 0 ? facts_.num_outer - 1 : Vectors::kNoAxis;
  if (std::holds_alternative<CpuRows>(variant))
    return PriceCpu(facts_.num_axes - 1, 20);
  if (std::holds_alternative<CpuTiles>(variant)) {
    Price price = PriceCpu(last_outer, 0);
    price.memory_ns /= 2;  // lines that were read are used whole
    return Finish(price);
  }
  return PriceCpu(last_outer, 0);
}

Price NestCosts::PriceCuda(const CudaPoints& v) const {
  const uint32_t axis =
      facts_.num_outer > 0 ? facts_.num_outer - 1 : Vectors::kNoAxis;
  const Vectors vectors = VectorsFor(axis, v.vector, v.peel != 0);
  Price price;
  double sectors = 0;
  bool gathers = false;
  for (const Access& access : accesses_) {
    price.bytes += BytesAlong(access, axis, 32 * v.vector);
    sectors += Sectors(access, vectors);
    gathers |= !access.plain && !access.store;
  }
  price.registers =
      kBaseRegisters + v.unroll * PackWords(vectors, false) + 2 * v.vector;
  price.fits = price.registers <= 128;
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip));
  price.issue_ns = Issue(vectors, false, false) / (chip * kLanesPerCycle);
  const double groups =
      static_cast<double>(outer_) / static_cast<double>(v.vector);
  const double slots =
      target_.multiprocessors * Resident(v.threads, price.registers);
  const double blocks = CeilDivide(groups, double(v.threads) * v.unroll);
  price.latency_ns = std::max(1.0, blocks / slots) * kLoadNs *
                     (gathers ? 2 * v.unroll : 1);
  return Finish(price);
}

Price NestCosts::PriceCuda(const CudaTiles& v) const {
  const uint32_t last = facts_.num_outer - 1;
  const auto across = static_cast<uint32_t>(v.axis);
  const Vectors vectors = VectorsFor(last, v.vector, false);
  const TileAccesses tiled =
      AccessesAcross(nest_, facts_, buffers_, across, v.edge);
  const auto is_tiled = [&](const Access& access) {
    for (ScalarId id : tiled.loads)
      if (access.offset == &facts_.load_offset[id]) return true;
    for (uint32_t s : tiled.stores)
      if (access.offset == &facts_.store_offset[s]) return true;
    return false;
  };
  Price price;
  double sectors = 0, cells = 0;
  int words = 0;
  for (const Access& access : accesses_) {
    const bool through = is_tiled(access);
    price.bytes += through ? BytesAlong(access, across, v.edge)
                           : BytesAlong(access, last, v.edge);
    sectors += through ? access.points * double(access.bytes) / kSector
                       : Sectors(access, vectors);
    if (through) {
      cells += 2 * access.points;
      words += static_cast<int>((access.bytes * v.vector + 3) / 4);
    }
  }
  const int steps = v.edge * v.edge / (kTileThreads * v.vector);
  price.registers = kBaseRegisters + words * steps + 2 * v.vector;
  price.fits = price.registers <= 128;
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  // Edges that stand over the ends of the axes.
  const double over =
      CeilDivide(double(extents_[last]), v.edge) * v.edge / double(extents_[last]) *
      CeilDivide(double(extents_[across]), v.edge) * v.edge /
      double(extents_[across]);
  price.memory_ns =
      std::max(price.bytes / target_.memory_bytes_per_ns,
               (sectors / kSectorsPerCycle + cells / 32) / chip) * 1.05;
  price.issue_ns =
      (Issue(vectors, false, false) + 3 * cells) / (chip * kLanesPerCycle) * over;
  const double blocks =
      static_cast<double>(outer_) * over / (double(v.edge) * v.edge);
  const double slots =
      target_.multiprocessors * Resident(kTileThreads, price.registers);
  price.latency_ns =
      std::max(1.0, blocks / slots) * (kLoadNs + 2 * kJoinBlockNs);
  return Finish(price);
}

Price NestCosts::PriceCuda(const CudaRows& v) const {
  const uint32_t axis = facts_.num_axes - 1;
  const Vectors vectors = VectorsFor(axis, v.vector, v.peel != 0);
  const bool held = v.held > 0;
  const int threads = v.lanes * v.rows;
  Price price;
  double sectors = 0, row_bytes = 0;
  for (const Access& access : accesses_) {
    const double once =
        access.reduced ? BytesAlong(access, axis, v.lanes * v.vector)
                       : access.points * double(access.bytes);
    price.bytes += once;
    row_bytes += once;
    const int again = (held ? access.held_passes : access.passes) - 1;
    if (again > 0) price.bytes += once * again;
    sectors += Sectors(access, vectors) * (1 + std::max(again, 0));
  }
  const int held_words = PackWords(vectors, true);
  const int all_words = PackWords(vectors, false);
  price.registers = kBaseRegisters + 4 * reductions_ + 2 * v.vector;
  if (held) {
    price.registers += v.held * held_words +
                       (v.hold_costly != 0 ? v.held * v.vector : 0) +
                       (v.unroll > 1 ? v.held * (all_words - held_words)
                                     : all_words - held_words);
  } else {
    price.registers += v.unroll * all_words;
  }
  price.fits = int64_t{price.registers} * threads <=
                   target_.registers_per_multiprocessor &&
               price.registers <= 168;
  const int resident = Resident(threads, price.registers);
  const double slots = double(target_.multiprocessors) * resident;
  const double blocks = CeilDivide(double(outer_), v.rows) * v.parts;
  // A second pass over rows that are still in L2.
  const double live = row_bytes / std::max<double>(1, double(outer_) / v.rows) *
                      std::min(blocks, slots);
  const double again = price.bytes - row_bytes;
  const double from_memory =
      live < kL2Bytes ? row_bytes + kL2Factor * again : price.bytes;
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = std::max(from_memory / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip));
  // Lanes beyond the row's end do nothing.
  const double groups =
      double(reduced_) / v.vector + (vectors.rest.Is(0) ? 0 : 1);
  const double steps = CeilDivide(groups / v.parts, v.lanes);
  const double idle = steps * v.lanes / std::max(1.0, groups / v.parts);
  price.issue_ns = Issue(vectors, held, v.hold_costly != 0) * idle /
                   (chip * kLanesPerCycle);
  // Every thread of the row does what belongs to the row as a whole.
  price.issue_ns += double(outer_) * v.lanes *
                    (outer_work_ + 12.0 * reductions_ + 12) /
                    (chip * kLanesPerCycle);
  const double passes = static_cast<double>(passes_.passes.size());
  const double join = v.lanes > 32 ? kJoinBlockNs : kJoinWarpNs;
  double block_ns = reducing_passes_ * join + 150;
  if (held) {
    block_ns += kLoadNs + (all_words > held_words && passes > 1 ? 300 : 0);
    // Groups whose loads wait for one another.
    if (held_words == 0 && v.unroll == 1) block_ns += (steps - 1) * kLoadNs;
  } else {
    block_ns += CeilDivide(steps, v.unroll) * passes * kLoadNs;
  }
  if (v.parts > 1) block_ns += kJoinPartsNs;
  const double rounds = blocks / slots;
  price.latency_ns =
      (v.parts > 1 && rounds < 3 ? std::ceil(rounds) : std::max(1.0, rounds)) *
      block_ns;
  return Finish(price);
}

Price NestCosts::PriceCuda(const CudaColumns& v) const {
  const uint32_t axis =
      facts_.num_outer > 0 ? facts_.num_outer - 1 : Vectors::kNoAxis;
  const Vectors vectors = VectorsFor(axis, v.vector, false);
  const int threads = v.across * v.down;
  Price price;
  double sectors = 0, once = 0;
  for (const Access& access : accesses_) {
    const double bytes = BytesAlong(access, axis, v.across * v.vector);
    once += bytes;
    price.bytes += bytes * access.passes;
    sectors += Sectors(access, vectors) * access.passes;
  }
  int accumulators = 0;
  int64_t most = 0;
  for (const ScalarNode& node : nest_.body) {
    if (node.op != ScalarOp::kReduce) continue;
    accumulators += static_cast<int>(AccumulatorBytes(node) / 4);
    most = std::max(most, AccumulatorBytes(node));
  }
  price.registers = kBaseRegisters + v.unroll * PackWords(vectors, false) +
                    v.vector * (accumulators + 1);
  price.fits = price.registers <= 168 &&
               int64_t{price.registers} * threads <=
                   target_.registers_per_multiprocessor &&
               most * threads * v.vector <= target_.shared_bytes_per_block;
  const double columns =
      CeilDivide(double(outer_), double(v.vector) * v.across);
  const double blocks = columns * v.parts;
  const double slots =
      double(target_.multiprocessors) * Resident(threads, price.registers);
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  if (v.parts > 1)
    price.bytes += 2.0 * v.parts * double(outer_) * 4 * accumulators;
  // A last round that few blocks fill costs as much as a full one.
  const double rounds = blocks / slots;
  const double uneven =
      rounds <= 1 ? 1 : rounds < 6 ? std::ceil(rounds) / rounds : 1.05;
  const double across_idle =
      columns * v.across * v.vector / std::max(1.0, double(outer_));
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip)) *
                    uneven;
  // A chip that is not full does not reach its bandwidth.
  const double busy = std::min(1.0, blocks / target_.multiprocessors);
  price.issue_ns = Issue(vectors, false, false) * across_idle /
                   (chip * kLanesPerCycle * busy) * uneven;
  const double passes = static_cast<double>(passes_.passes.size());
  const double steps =
      CeilDivide(double(reduced_) / v.parts, double(v.down) * v.unroll);
  double block_ns = steps * passes * kLoadNs + 150 +
                    reductions_ * kJoinBlockNs * std::log2(std::max(2, v.down)) / 2;
  if (v.parts > 1) {
    block_ns += kJoinPartsNs +
                CeilDivide(double(v.parts), double(v.down) * 4) * kLoadNs;
  }
  price.latency_ns = (rounds < 6 ? std::ceil(rounds) : rounds) * block_ns;
  return Finish(price);
}

Price NestCosts::PriceCuda(const CudaSerial& v) const {
  const uint32_t axis =
      facts_.num_outer > 0 ? facts_.num_outer - 1 : Vectors::kNoAxis;
  const Vectors vectors{axis, 1, 0, false};
  Price price;
  double sectors = 0;
  for (const Access& access : accesses_) {
    price.bytes += BytesAlong(access, axis, 32) * access.passes;
    sectors += Sectors(access, vectors) * access.passes;
  }
  price.registers = kBaseRegisters + 4 * reductions_;
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip));
  const double slots = double(target_.multiprocessors) *
                       Resident(v.threads, price.registers);
  const double blocks = CeilDivide(double(outer_), v.threads);
  const double busy = std::min(1.0, blocks / target_.multiprocessors);
  price.issue_ns =
      Issue(vectors, false, false) / (chip * kLanesPerCycle * busy);
  price.latency_ns = std::max(1.0, blocks / slots) *
                     (double(reduced_) * kLoadNs / 3 *
                          static_cast<double>(passes_.passes.size()) +
                      kLoadNs);
  return Finish(price);
}

// One core with vectors of the target's width. Source of the numbers: loops over
// arrays of 64 MB on the cores that the benchmarks run on.
Price NestCosts::PriceCpu(uint32_t vector_axis, double overhead_ns) const {
  constexpr double kBytesPerNs = 10;
  constexpr double kOperationsPerNs = 4;
  constexpr double kLine = 64;
  const bool reduces = facts_.num_axes > facts_.num_outer;
  const double lanes = target_.vector_bytes / 4.0;
  const double inner =
      static_cast<double>(outer_) * static_cast<double>(reduced_);
  Price price;
  double gathered = 0;
  for (const Access& access : accesses_) {
    const double bytes = access.points * double(access.bytes);
    const Motion motion = vector_axis == Vectors::kNoAxis
                              ? Motion::kStill
                              : MotionOf(*access.offset, vector_axis, facts_);
    const bool strided =
        motion == Motion::kStrided || motion == Motion::kIrregular;
    price.bytes += bytes * access.passes *
                   (strided ? std::min(kLine / double(access.bytes), 4.0) : 1);
    const double all =
        access.reduced || !reduces ? inner : static_cast<double>(outer_);
    // Lane by lane, or a vector at a time.
    gathered += all * access.passes * (strided ? 2.0 : 1.0 / lanes);
  }
  price.memory_ns = price.bytes / kBytesPerNs;
  price.issue_ns =
      (gathered + inner * work_ / lanes + double(outer_) * outer_work_) /
      kOperationsPerNs;
  price.latency_ns = double(outer_) * overhead_ns;
  return Finish(price);
}

}  // namespace kiln
