#include "compiler/schedule/cost_model.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/loop/index_expr.h"
#include "compiler/schedule/cuda_costs.h"

namespace kiln {

namespace {

constexpr double kSpecialCycles = 8;  // of the special function unit

// Instructions of an operation, without loads and stores.
double InstructionsOf(const ScalarNode& node, bool approximate) {
  if (approximate) {
    if (node.op == ScalarOp::kExp || node.op == ScalarOp::kSqrt) return 4;
    if (node.op == ScalarOp::kDiv || node.op == ScalarOp::kReciprocal) return 6;
    if (node.op == ScalarOp::kSigmoid) return 9;
    if (node.op == ScalarOp::kTanh) return 14;
    if (node.op == ScalarOp::kErf) return 20;
  }
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
      if (IsArgReduction(node.reduce)) return 6;
      return node.reduce == ReduceOp::kSoftmax   ? 7
             : node.reduce == ReduceOp::kMoments ? 9
                                                 : 1;
    case ScalarOp::kScan:
      return node.reduce == ReduceOp::kLogSumExp ? 60 : 1;
    case ScalarOp::kErf:
    case ScalarOp::kTanh:
      return 22;
    default:  // most take one or two
      return IsCostly(node.op) ? 14 : 1;
  }
}

int64_t StrideOf(const LinearForm& form, uint32_t axis) {
  const SymExpr stride = form.CoefficientOf(axis);
  return stride.is_constant() ? std::abs(stride.constant()) : 0;
}

// How many of these go to the special function unit. It takes eight times as long for
// one, but works beside the other units.
double SpecialOf(ScalarOp op) {
  switch (op) {
    case ScalarOp::kSigmoid:
    case ScalarOp::kTanh:
    case ScalarOp::kErf:
      return 2;
    case ScalarOp::kDiv:
    case ScalarOp::kReciprocal:
    case ScalarOp::kRsqrt:
    case ScalarOp::kSqrt:
      return 1;
    default:  // a question about few
      return IsCostly(op) ? 1 : 0;
  }
}

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
      passes_(PlanPasses(nest, facts, {})),
      product_(MatrixProductOf(nest, facts, buffers)) {
  for (uint32_t a = 0; a < facts.num_axes; ++a) {
    extents_.push_back(std::max<int64_t>(1, shapes.Hint(facts.extents[a])));
    (a < facts.num_outer ? outer_ : reduced_) *= extents_.back();
  }
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const ScalarNode& node = nest.body[id];
    if (node.op != ScalarOp::kLoad) continue;
    AddAccess(node.buffer, facts.load_offset[id], facts.axes[id],
              IsPlainLoad(nest, facts, id), facts.IsReduced(id), false, id);
  }
  for (size_t s = 0; s < nest.stores.size(); ++s) {
    const Store& store = nest.stores[s];
    AddAccess(store.buffer, facts.store_offset[s], facts.store_axes[s],
              store.mask == Store::kNoMask && store.mode == StoreMode::kSet,
              facts.StoreIsReduced(s), true, 0);
    accesses_.back().atomic = IsAtomic(store.mode);
    column_sums_ += store.mode == StoreMode::kSum;
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
  access.gathered = HasIndirect(offset);
  const std::optional<LinearForm> form = AsLinear(offset);
  for (uint32_t a = 0; a < facts_.num_axes; ++a) {
    access.motion.push_back(MotionOf(offset, a, facts_));
    access.stride.push_back(form.has_value() ? StrideOf(*form, a) : 0);
    // An element that does not move along an axis is read once for all of its points.
    if ((axes & AxisBit(a)) == 0 || access.motion[a] == Motion::kStill)
      continue;
    access.axes |= AxisBit(a);
    access.points *= static_cast<double>(extents_[a]);
  }
  // Not more than the buffer has: elements that are read again come from caches.
  double size = 1;
  for (const SymExpr& extent : buffers_[buffer].sizes)
    size *= static_cast<double>(std::max<int64_t>(1, shapes_.Hint(extent)));
  access.points = std::min(access.points, size);
  if (!store && reduced) {
    access.passes = 0;
    for (const KernelPass& pass : passes_.passes)
      access.passes +=
          std::binary_search(pass.inside.begin(), pass.inside.end(), id);
    access.passes = std::max(access.passes, 1);
    access.held_passes = plain ? 1 : access.passes;
  }
  accesses_.push_back(access);
}

double NestCosts::Instructions(ScalarId id) const {
  return InstructionsOf(nest_.body[id], facts_.approximate[id]);
}

void NestCosts::CountWork() {
  for (const KernelPass& pass : passes_.passes) {
    for (ScalarId id : pass.inside) {
      const ScalarNode& node = nest_.body[id];
      work_ += Instructions(id);
      special_ += SpecialOf(node.op);
      if (IsCostly(node.op) && facts_.stage[id] + 1u < passes_.passes.size()) {
        has_costly_ = true;
      }
    }
    for (ScalarId id : pass.before) outer_work_ += Instructions(id);
    for (ScalarId id : pass.reduces) {
      work_ += Instructions(id);
      ++reductions_;
      moments_ += nest_.body[id].reduce == ReduceOp::kMoments;
      softmaxes_ += nest_.body[id].reduce == ReduceOp::kSoftmax;
    }
    reducing_passes_ += !pass.reduces.empty();
  }
  if (has_costly_) {
    const KernelPasses held =
        PlanPasses(nest_, facts_, ValuesToHold(nest_, facts_, true));
    double work = 0;
    for (const KernelPass& pass : held.passes) {
      for (ScalarId id : pass.inside) work += Instructions(id);
      for (ScalarId id : pass.reduces) work += Instructions(id);
    }
    costly_again_ = work_ - work;
    special_again_ = special_;
    for (const KernelPass& pass : held.passes)
      for (ScalarId id : pass.inside)
        special_again_ -= SpecialOf(nest_.body[id].op);
  }
  for (ScalarId id : passes_.last) {
    const bool inner = facts_.num_axes == facts_.num_outer;
    (inner ? work_ : outer_work_) += Instructions(id);
    if (inner) special_ += SpecialOf(nest_.body[id].op);
  }
}

int NestCosts::WidestVector(uint32_t axis) const {
  int64_t narrowest = 16;
  bool any = false;
  for (const Access& access : accesses_) {
    if (MotionAlong(access, axis) != Motion::kContiguous) continue;
    any = true;
    narrowest = std::min(narrowest, access.bytes);
  }
  return any ? static_cast<int>(std::clamp<int64_t>(16 / narrowest, 1, 8)) : 1;
}

const NestCosts::PricedVectors& NestCosts::VectorsFor(uint32_t axis, int width,
                                                      bool peel) const {
  for (const PricedVectors& known : vectors_) {
    if (known.axis == axis && known.width == width && known.peel == peel)
      return known;
  }
  vectors_.push_back(
      {MakeVectors(nest_, facts_, buffers_, shapes_, axis, width, peel), peel});
  return vectors_.back();
}

// Instructions of lanes, for all points and passes.
double NestCosts::Issue(const PricedVectors& vectors, bool held,
                        bool costly_held) const {
  double& known = vectors.issue[held ? 1 + costly_held : 0];
  if (known < 0) known = CountIssue(vectors, held, costly_held);
  return known;
}

bool NestCosts::AllWide(uint32_t axis, int width) const {
  const PricedVectors& vectors = VectorsFor(axis, width, false);
  if (vectors.cut) return false;
  for (const Access& access : accesses_) {
    if (MotionAlong(access, axis) != Motion::kContiguous) continue;
    if (!IsWideAccess(buffers_[access.buffer], *access.offset, vectors, facts_))
      return false;
  }
  return true;
}

bool NestCosts::LoadsWide(uint32_t axis, int width) const {
  const PricedVectors& vectors = VectorsFor(axis, width, false);
  if (vectors.cut) return false;
  for (const Access& access : accesses_) {
    if (!access.store && MotionAlong(access, axis) == Motion::kContiguous &&
        !IsWideAccess(buffers_[access.buffer], *access.offset, vectors, facts_))
      return false;
  }
  return true;
}

bool NestCosts::LoadsForOnePass() const {
  for (const Access& access : accesses_) {
    if (!access.store && access.plain && access.reduced && access.passes < 2)
      return true;
  }
  return false;
}

bool NestCosts::MaySplit() const {
  if (passes_.passes.size() != 1 || passes_.passes[0].reduces.empty() ||
      facts_.has_scan) {
    return false;
  }
  return true;
}

bool NestCosts::MayScan() const {
  if (facts_.num_axes != facts_.num_outer + 1) return false;
  std::vector<bool> beneath(nest_.body.size(), false);  // a scan lies
  for (ScalarId id = 0; id < nest_.body.size(); ++id) {
    const ScalarNode& node = nest_.body[id];
    if (node.op == ScalarOp::kReduce || node.op == ScalarOp::kReduceResult ||
        node.op == ScalarOp::kSort || node.op == ScalarOp::kTally) {
      return false;
    }
    for (const ScalarId arg : node.args)
      beneath[id] = beneath[id] || beneath[arg];
    if (node.op != ScalarOp::kScan) continue;
    if (beneath[id] || IsTupleReduction(node.reduce)) return false;
    beneath[id] = true;
  }
  for (size_t s = 0; s < nest_.stores.size(); ++s)
    if (!facts_.StoreIsReduced(s)) return false;
  return true;
}

const ScalarNode* NestCosts::OnlyReduction(ScalarOp op) const {
  if (facts_.num_axes != facts_.num_outer + 1) return nullptr;
  const ScalarNode* only = nullptr;
  for (const ScalarNode& node : nest_.body) {
    if (!IsReduction(node.op)) continue;
    if (node.op != op || only != nullptr) return nullptr;
    only = &node;
  }
  return only;
}

double NestCosts::BytesOnce(uint32_t axis, int run) const {
  absl::flat_hash_map<BufferId, double> read;
  double bytes = 0;
  for (const Access& access : accesses_) {
    const double moved = BytesAlong(access, axis, run);
    if (access.store || access.gathered) {
      bytes += moved;
      continue;
    }
    double& sum = read[access.buffer];
    double size = static_cast<double>(access.bytes);
    for (const SymExpr& extent : buffers_[access.buffer].sizes)
      size *= static_cast<double>(std::max<int64_t>(1, shapes_.Hint(extent)));
    // At least the sectors that one access moves.
    sum = std::max(std::min(sum + moved, size), std::max(sum, moved));
  }
  for (const auto& [buffer, moved] : read) bytes += moved;
  return bytes;
}

// Bytes that memory moves, in whole sectors. A strided access that is contiguous along
// another axis finds its neighbours in L2.
double NestCosts::BytesAlong(const Access& access, uint32_t axis,
                             int run) const {
  const double bytes = access.points * static_cast<double>(access.bytes);
  if (axis == Vectors::kNoAxis) return bytes;
  switch (MotionAlong(access, axis)) {
    case Motion::kStill:
      return bytes;
    case Motion::kContiguous: {
      const double stretch =
          static_cast<double>(run) * static_cast<double>(access.bytes);
      // Short runs open more pages of memory for the same number of bytes.
      const double pages = stretch < 64 ? 1.15 : stretch < 128 ? 1.05 : 1.0;
      return bytes * std::max(pages, kSector / stretch);
    }
    case Motion::kStrided:
    case Motion::kIrregular: {
      const int64_t stride = access.stride[axis];
      // Neighbours share sectors, so the bytes between them are moved too.
      if (stride > 0 && stride * access.bytes < kSector)
        return bytes * static_cast<double>(stride);
      bool elsewhere = false;
      for (uint32_t a = 0; a < facts_.num_axes; ++a)
        elsewhere |= MotionAlong(access, a) == Motion::kContiguous;
      const double waste = kSector / static_cast<double>(access.bytes);
      return elsewhere ? bytes * (1 + kL2TimeFactor * waste) : bytes * waste;
    }
  }
  return bytes;
}

double NestCosts::Sectors(const Access& access, const Vectors& vectors) const {
  double points = access.points;
  const Motion motion = MotionAlong(access, vectors.axis);
  // A warp whose lanes all read one element moves one sector.
  const double lanes_still = 32.0 * vectors.width;
  if (motion == Motion::kStill) {
    double all = static_cast<double>(outer_);
    if (access.reduced) all *= static_cast<double>(reduced_);
    return all / lanes_still;
  }
  if (motion == Motion::kStrided) {
    const int64_t stride = access.stride[vectors.axis];
    const double apart = double(stride) * vectors.width * double(access.bytes);
    if (stride > 0) return points * std::min(1.0, apart / kSector);
  }
  if (motion == Motion::kContiguous) {
    // A warp that stores element by element writes a part of all sectors of its groups
    // each time. Loads of this kind find the sectors in L1.
    const bool wide =
        IsWideAccess(buffers_[access.buffer], *access.offset, vectors, facts_);
    const bool apart = access.store && vectors.width > 1 &&
                       !(wide && (!access.atomic || target_.vector_atomics));
    double sectors = points * static_cast<double>(access.bytes) / kSector;
    if (access.atomic) {
      // An addition moves at most 16 bytes a lane, so wider groups touch the same
      // sectors again.
      const double pieces = vectors.width * double(access.bytes) / 16;
      sectors *= kAddedSectors;
      if (!apart && pieces > 1) sectors *= 1 + kSplitAddition * (pieces - 1);
    }
    return sectors * (apart ? vectors.width : 1);
  }
  return points;
}

const std::vector<double>& NestCosts::SectorsOf(
    const PricedVectors& vectors) const {
  if (vectors.sectors.empty()) {
    vectors.sectors.reserve(accesses_.size());
    for (const Access& access : accesses_)
      vectors.sectors.push_back(Sectors(access, vectors));
  }
  return vectors.sectors;
}

double NestCosts::CountIssue(const Vectors& vectors, bool held,
                             bool costly_held) const {
  const bool reduces = facts_.num_axes > facts_.num_outer;
  const double inner =
      static_cast<double>(outer_) * static_cast<double>(reduced_);
  double total = 0;
  double per_point = work_ - (held && costly_held ? costly_again_ : 0);
  if (vectors.cut && vectors.width > 1) per_point += 1.5;
  for (const Access& access : accesses_) {
    const double all =
        access.reduced || !reduces ? inner : static_cast<double>(outer_);
    const int passes = held ? access.held_passes : access.passes;
    const bool lanes = vectors.axis != Vectors::kNoAxis && vectors.width > 1 &&
                       MotionAlong(access, vectors.axis) != Motion::kStill;
    const bool wide = lanes && IsWideAccess(buffers_[access.buffer],
                                            *access.offset, vectors, facts_);
    // A conversion for each element; an address and an access for each vector.
    const double each =
        wide || !lanes ? 5.0 / vectors.width : 3.0 + 2.0 / vectors.width;
    const double convert = access.bytes < 4 ? 1 : 0;
    total += all * (each * passes + convert);
  }
  total += inner * per_point + static_cast<double>(outer_) * outer_work_;
  // Computing the position of a group on each axis.
  total += inner / vectors.width * 4;
  const double special = special_ - (held && costly_held ? special_again_ : 0);
  return std::max(total, inner * special * kSpecialCycles);
}

int NestCosts::PackWords(const PricedVectors& vectors, bool only_held) const {
  int& words = vectors.words[only_held];
  if (words >= 0) return words;
  words = 0;
  for (const Access& access : accesses_) {
    if (access.store || !access.plain) continue;
    if (only_held && (!access.reduced || access.passes < 2)) continue;
    const bool lanes = vectors.axis != Vectors::kNoAxis &&
                       MotionAlong(access, vectors.axis) != Motion::kStill;
    words +=
        static_cast<int>((access.bytes * (lanes ? vectors.width : 1) + 3) / 4);
  }
  return words;
}

int NestCosts::Resident(int threads, int registers) const {
  const int64_t by_threads = target_.threads_per_multiprocessor / threads;
  const int64_t by_registers =
      target_.registers_per_multiprocessor / (int64_t{registers} * threads);
  return static_cast<int>(
      std::clamp<int64_t>(std::min(by_threads, by_registers), 1, 32));
}

int NestCosts::ResidentOf(double blocks, int most) const {
  const double each = std::ceil(blocks / target_.multiprocessors);
  return static_cast<int>(std::clamp<double>(each, 1, most));
}

Price NestCosts::Finish(Price price, int warps, double lockstep,
                        double most_apart) const {
  const double worst =
      std::max({price.memory_ns, price.issue_ns, price.latency_ns});
  const double sum = price.memory_ns + price.issue_ns + price.latency_ns;
  // The more warps there are, the more of them compute while others wait for memory.
  const double apart = std::clamp(4.7 / warps, 0.13, 0.72);
  price.ns =
      worst + std::min(most_apart, std::max(apart, lockstep)) * (sum - worst);
  return price;
}

Price NestCosts::PriceOf(const KernelVariant& variant) const {
  if (const auto* v = std::get_if<CudaPoints>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaTiles>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaRows>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaColumns>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaScans>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaShortScans>(&variant))
    return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaColumnScans>(&variant))
    return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaSorts>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaSelections>(&variant))
    return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaTallies>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaCounts>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaProducts>(&variant)) return PriceCuda(*v);
  if (const auto* v = std::get_if<CudaSerial>(&variant)) return PriceCuda(*v);
  const uint32_t last_outer =
      facts_.num_outer > 0 ? facts_.num_outer - 1 : Vectors::kNoAxis;
  if (std::holds_alternative<CpuRows>(variant))
    return PriceCpu(facts_.num_axes - 1, Vectors::kNoAxis, 20);
  if (std::holds_alternative<CpuScans>(variant))
    return PriceCpu(facts_.num_axes - 1, Vectors::kNoAxis, 5);
  if (const auto* v = std::get_if<CpuTiles>(&variant))
    return PriceCpu(last_outer, static_cast<uint32_t>(v->axis), 0);
  return PriceCpu(last_outer, Vectors::kNoAxis, 0);
}

}  // namespace kiln
